"""Attention, convolution and pooling written out in JAX."""
