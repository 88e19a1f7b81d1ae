"""The optimizer's work as an HTML page, and as data for other viewers."""
