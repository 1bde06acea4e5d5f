"""What the embedded schema registry is made of."""
