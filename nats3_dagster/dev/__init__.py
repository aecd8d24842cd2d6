"""The embedded stack: nats-server, Postgres and an S3 endpoint as plain processes on loopback."""
