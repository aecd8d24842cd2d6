"""Replays: what was asked for, which chunks each takes, and who may drive it."""
