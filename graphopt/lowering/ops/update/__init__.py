"""Parameter updates in JAX."""
