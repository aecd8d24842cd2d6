"""The embedded stack (nats-server, Postgres and an S3 endpoint as processes on loopback) and the demo."""
