"""The tasks behind `Consumer.run`."""
