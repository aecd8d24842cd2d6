"""Assets: an archive's stream, hours, seals, exports, table and replays, and the events and metadata of each."""
