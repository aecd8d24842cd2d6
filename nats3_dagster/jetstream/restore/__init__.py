"""Restoring a stream: the server's own backup format, and the requests that send it."""
