"""Use cases of an archive: create, capture, seal, verify, repair, remove."""
