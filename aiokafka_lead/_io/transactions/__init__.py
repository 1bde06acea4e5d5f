"""Transactions: the tasks and calls that carry out what `_core.transactions` decides."""
