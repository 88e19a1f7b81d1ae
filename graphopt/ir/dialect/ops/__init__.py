"""The ops of the `pd` dialect, one file per family."""
