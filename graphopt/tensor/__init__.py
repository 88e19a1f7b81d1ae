"""Functions on tensors, in Paddle's files; scripts use them as `paddle.<name>`."""
