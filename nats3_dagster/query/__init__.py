"""Query: SQL over archives, by DuckDB, in this process."""
