"""What developers and releases use."""
