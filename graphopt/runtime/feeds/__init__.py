"""Values on their way in and out: feeds checked, padded and split, fetches."""
