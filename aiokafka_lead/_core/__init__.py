"""Policy without I/O: every decision takes the time as an argument and returns the action."""
