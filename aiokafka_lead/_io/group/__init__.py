"""Who coordinates a group, and what is asked of it."""
