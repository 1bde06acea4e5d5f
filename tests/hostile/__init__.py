"""Brokers that lie: what a client makes of answers that no honest broker sends."""
