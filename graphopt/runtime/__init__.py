"""The runtime: scopes, places, strategies and executors (JAX is imported when something runs)."""
