"""Bundles: a model with executables for chosen sizes in one file, `.graphopt`.

The file has the program and its parameters in Paddle's formats, and for each set of sizes the
executable for this kind of machine and the StableHLO that it was compiled from. `layout` defines
the bytes of the file, `sizes` the shapes to compile for; `write` and `read` write and read it.
"""
