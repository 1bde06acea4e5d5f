"""Version of aiokafka with which this package is compatible."""

__version__ = "0.14.0"
