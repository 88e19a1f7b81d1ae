"""Programs to modules: names become SSA values, blocks become regions."""
