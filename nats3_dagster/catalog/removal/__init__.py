"""Removal: how chunks give way or leave an archive, what holds them back, and which objects may be deleted."""
