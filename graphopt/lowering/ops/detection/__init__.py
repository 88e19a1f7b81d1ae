"""Object detection in JAX."""
