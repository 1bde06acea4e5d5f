"""A group's coordinator, and what is asked of it."""
