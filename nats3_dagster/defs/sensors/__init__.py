"""Sensors: what asks for runs, and what makes Dagster show the catalog."""
