"""Programs that an earlier process compiled, found on disk by their content."""
