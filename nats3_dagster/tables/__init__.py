"""Tables: an archive as an Iceberg table. The only place with pyiceberg."""
