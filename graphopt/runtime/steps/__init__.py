"""Executables and their steps: forms, interrupts, callbacks, results."""
