"""Decisions without I/O. Each method takes the time as an argument, and returns the action for the caller to take."""
