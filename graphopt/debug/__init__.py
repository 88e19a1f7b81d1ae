"""Tools that find a wrong rewrite: bisect, reduce, replay, compare."""
