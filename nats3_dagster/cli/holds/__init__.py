"""`nats3 hold`."""
