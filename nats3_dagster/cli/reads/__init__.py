"""`nats3 message` and `query`: archived messages, one by one or by SQL."""
