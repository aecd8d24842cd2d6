"""`nats3 chunk`: the objects that hold an archive's messages."""
