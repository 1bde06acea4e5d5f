"""The floor that every other package stands on: how options and arguments are described and checked, what callables of
the application turn out to be, how log lines name their client, and the package's version."""
