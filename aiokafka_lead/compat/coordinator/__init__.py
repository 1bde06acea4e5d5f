"""What groups of consumers are made of."""
