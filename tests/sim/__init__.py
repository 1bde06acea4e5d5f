"""Simulations of clients and a cluster in virtual time: ``python -m tests.sim --runs 5000 [--seed N]``."""
