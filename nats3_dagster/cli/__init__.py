"""Faces: the command line.

The rule kept here: thin. A command reads its options, calls a use case and shows what came back; results go to stdout,
all else to stderr, and whatever is slow to import is imported by the command that needs it.
"""
