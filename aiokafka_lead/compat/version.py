"""The aiokafka version whose names and semantics these are."""

__version__ = "0.14.0"
