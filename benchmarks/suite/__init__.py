"""The benchmark suite: the same models on every engine, in turns (`python -m suite --help`)."""
