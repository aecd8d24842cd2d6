"""Messages: what a replay publishes of each one, how fast, and what the target has of it."""
