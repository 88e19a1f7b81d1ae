"""State between steps: variables in scopes, their places, random keys."""
