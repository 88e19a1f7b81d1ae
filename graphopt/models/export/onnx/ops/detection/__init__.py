"""Detection of objects."""
