"""Images as arrays, for data sets and transforms."""
