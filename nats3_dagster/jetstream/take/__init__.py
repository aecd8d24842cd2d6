"""Take: messages of a durable consumer, acknowledged once they are archived."""
