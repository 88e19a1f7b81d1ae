"""Steps that NumPy computes op by op, so that a first result needs no compilation."""
