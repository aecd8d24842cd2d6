"""Long-term memory for NATS JetStream."""

__version__ = "0.1.0"
