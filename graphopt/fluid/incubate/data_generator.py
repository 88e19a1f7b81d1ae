"""Generators of lines for data sets (paddle.fluid.incubate.data_generator)."""

from graphopt.distributed.fleet.data_generator import DataGenerator as DataGenerator
from graphopt.distributed.fleet.data_generator import (
    MultiSlotDataGenerator as MultiSlotDataGenerator,
)
from graphopt.distributed.fleet.data_generator import (
    MultiSlotStringDataGenerator as MultiSlotStringDataGenerator,
)
