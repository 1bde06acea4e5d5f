"""The tasks of `Consumer.run`."""
