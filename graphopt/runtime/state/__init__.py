"""State between steps: variables in scopes, their layouts, random keys."""
