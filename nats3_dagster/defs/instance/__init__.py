"""The Dagster instance: its folder, executor and resources, and the names of Dagster that are not public."""
