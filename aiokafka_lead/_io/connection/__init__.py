"""Sockets, and the tasks that own them."""
