"""The lowest package, which all other packages may use.

It contains checks of options and arguments, inspection of the application's functions, logs that name their client, and
the package's version.
"""
