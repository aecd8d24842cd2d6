"""`nats3 account`."""
