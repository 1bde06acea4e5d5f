"""The faults of ``doubt``, by what is wrong for ever though it answers; and the clients that meet them."""
