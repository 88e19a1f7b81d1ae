"""Settings of scripts and of the environment: flags, strategies."""
