"""Share groups: the tasks and requests of `ShareConsumer`."""
