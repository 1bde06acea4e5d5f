"""Decisions without I/O. Methods take the current time as an argument and return the action to take."""
