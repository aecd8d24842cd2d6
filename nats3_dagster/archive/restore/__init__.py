"""A stream made again from its archive, with the sequences, times, subjects and headers that it had."""
