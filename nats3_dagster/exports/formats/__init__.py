"""Formats: rows as the bytes of files."""
