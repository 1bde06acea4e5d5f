"""The tasks that accept records and send them."""
