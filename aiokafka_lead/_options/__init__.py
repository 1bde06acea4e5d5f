"""The base of every other package: descriptions and checks of options and arguments, inspection of the application's
callables, log lines that name their client, and the package's version.
"""
