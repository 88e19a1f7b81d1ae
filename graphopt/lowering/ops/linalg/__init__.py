"""Linear algebra beyond matrix products in JAX."""
