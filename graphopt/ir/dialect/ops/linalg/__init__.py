"""Linear algebra beyond matrix products."""
