"""Building blocks of consumer groups."""
