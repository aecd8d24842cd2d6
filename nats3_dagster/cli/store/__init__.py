"""`nats3 store`: archives."""
