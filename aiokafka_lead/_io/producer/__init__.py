"""Tasks and calls that accept records and send them."""
