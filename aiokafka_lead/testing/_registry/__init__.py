"""The parts of the embedded schema registry."""
