"""A group's coordinator, and the requests to it."""
