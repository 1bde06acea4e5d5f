"""Topics as a batch and a streaming source."""
