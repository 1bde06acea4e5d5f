"""Tasks of `Consumer.run`."""
