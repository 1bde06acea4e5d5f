"""Parts of the embedded schema registry."""
