"""Clients as applications use them, tasks and streams included, on virtual time: ``python -m tests.sim.whole``."""
