"""The HTTP API: archives as store jobs, replays as load jobs, chunks, progress, metrics.

A face: a route translates a request, calls one use case, and renders what comes back. Nothing is kept in the memory of
the server: several may run, and a restart forgets nothing.
"""
