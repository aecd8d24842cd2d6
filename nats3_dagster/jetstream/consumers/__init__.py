"""The durables of a stream that applications have: their configuration and exact position, asked and put back."""
