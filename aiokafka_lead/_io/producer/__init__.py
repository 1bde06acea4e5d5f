"""The tasks that take records in and send them."""
