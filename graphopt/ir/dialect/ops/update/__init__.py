"""Parameter updates: values in, updated values out."""
