"""Archives that a file declares: as text, as entries, and in the shape of nats-s3-connector."""
