"""Programs to run and to copy from. The first lines of each show how to run it."""
