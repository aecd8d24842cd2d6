"""Routes: what is asked under which address."""
