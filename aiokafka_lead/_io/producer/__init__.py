"""The tasks and calls that accept records and send them."""
