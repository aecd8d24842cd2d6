"""Exports: archived messages decoded, split by a key and written as files that others read."""
