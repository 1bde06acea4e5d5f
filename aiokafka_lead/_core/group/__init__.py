"""Consumer groups without I/O: membership, assignment and offsets."""
