"""Sessions: connections to Postgres, the schema's version, statements by name, locks, and errors in our words."""
