"""Read: messages of a stream, from the socket to Arrow."""
