"""Decoding: messages as rows, and the keys of rows."""
