"""Bundles: a model with executables for chosen sizes in one file, `.graphopt`.

The file has the program and its parameters in Paddle's formats, and for each set of sizes the
executable of this kind of machine and the StableHLO that it was compiled from. `layout` is the
bytes of the file, `manifest` its records, `write` and `read` are the two ways through them.
"""
