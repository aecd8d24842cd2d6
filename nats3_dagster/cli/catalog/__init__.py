"""`nats3 catalog`: the catalog as a whole."""
