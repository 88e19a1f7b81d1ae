"""Settings of scripts and of the environment: flags and strategies."""
