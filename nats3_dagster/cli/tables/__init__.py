"""`nats3 table`: archives as Iceberg tables."""
