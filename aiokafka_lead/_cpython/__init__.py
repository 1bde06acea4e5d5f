"""What leans on how CPython works inside: memory, reference counts, and the slots of types."""
