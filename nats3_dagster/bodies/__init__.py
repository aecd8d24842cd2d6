"""Bodies of requests: what the HTTP API and `--from-json` take, checked alike.

Invariant: nothing here imports fastapi, for commands start fast.
"""
