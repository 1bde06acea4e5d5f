"""The version of aiokafka that this package is compatible with."""

__version__ = "0.14.0"
