"""Programs to run and to copy from; each one's first lines say how to run it."""
