"""`nats3 load`: replays."""
