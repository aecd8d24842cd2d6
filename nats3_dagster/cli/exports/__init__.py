"""`nats3 export`: files for other systems."""
