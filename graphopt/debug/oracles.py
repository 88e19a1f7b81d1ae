"""The references that `graphopt bisect --against` compares an optimized program with."""

# the program without passes, and NumPy in float64, which shares no code with the lowering
UNOPTIMIZED, FLOAT64 = "unoptimised", "float64"
