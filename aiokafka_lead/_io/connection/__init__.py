"""Connections to brokers, and the tasks that own them."""
