"""Keeping: how long messages are kept, and in which chunks."""
