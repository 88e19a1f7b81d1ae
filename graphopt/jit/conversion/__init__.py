"""Conversion of Python functions for traces: control flow that may depend on tensors as calls."""
