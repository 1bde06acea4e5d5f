"""Tools for developers and releases."""
