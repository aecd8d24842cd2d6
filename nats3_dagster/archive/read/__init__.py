"""Read: messages of an archive, one by one and in order: points, subjects, cursors, references, and chunks as files."""
