"""`nats3 message`, `query`, `export` and `table`: archived messages, read and handed on."""
