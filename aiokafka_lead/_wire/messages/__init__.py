"""One module per API, each imported at its first use."""
