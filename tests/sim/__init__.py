"""Whole clients against a whole cluster on virtual time: ``python -m tests.sim --runs 5000 [--seed N]``."""
