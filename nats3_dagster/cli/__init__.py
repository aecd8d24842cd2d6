"""A face: the command line. A command reads its options, calls one use case and shows what came back.

Results go to stdout, all else to stderr.
"""
