"""The rewrite of a program's forward part to half precision: casts between operators."""
