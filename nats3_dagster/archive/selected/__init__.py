"""Selected: what a selection takes of an archive: its chunks, what is missing between them, and how many messages."""
