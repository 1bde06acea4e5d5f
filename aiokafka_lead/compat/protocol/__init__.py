"""Requests that programs send by hand, and the form of answers."""
