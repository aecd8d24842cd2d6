"""Lifecycle: creating, changing and deleting archives, and archives as jobs."""
