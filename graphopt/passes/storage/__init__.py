"""Passes that change how state is stored between steps."""
