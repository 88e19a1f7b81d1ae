"""The references that `graphopt bisect --against` compares an optimised program with."""

# the program without passes; or NumPy in float64, which shares no code with the lowering
UNOPTIMISED, FLOAT64 = "unoptimised", "float64"
