"""Names that 1.8 keeps apart until they settle (paddle.fluid.incubate)."""

from graphopt.fluid.incubate import data_generator as data_generator
