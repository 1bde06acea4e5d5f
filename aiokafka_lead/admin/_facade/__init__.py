"""What `AdminClient` is made of: a class for each area, which checks what it is given."""
