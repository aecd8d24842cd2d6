"""Publish: Arrow to acknowledged messages, by one publisher at a time."""
