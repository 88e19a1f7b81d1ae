"""The optimizer's work as a page to look at, and as data for other viewers."""
