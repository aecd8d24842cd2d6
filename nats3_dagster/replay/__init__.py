"""Use cases of a replay: plan, publish, ask the targets, pause and resume."""
