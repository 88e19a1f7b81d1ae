"""Layer classes; scripts use them as `paddle.nn.<name>`."""
