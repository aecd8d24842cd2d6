"""NATS: the archives as the streams of a JetStream domain, read by any client of NATS."""
