"""Outputs: exports and Iceberg tables, and what was last written to each."""
