"""The tasks that fetch, and those that hand over."""
