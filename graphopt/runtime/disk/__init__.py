"""Programs that another process compiled before: found on disk by their content."""
