"""The rules, family by family."""
