"""Package below all others: checks of options and arguments, inspection of the application's callables, log lines that
name their client, and the package's version.
"""
