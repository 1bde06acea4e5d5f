"""Brokers that lie: the client's reactions to answers that no honest broker sends."""
