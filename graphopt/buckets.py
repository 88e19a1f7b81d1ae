"""Feeds of many sizes as a few: `static.Executor(buckets=Buckets({"batch": powers_of_two(8)}))`."""

from graphopt.runtime.buckets import Buckets as Buckets
from graphopt.runtime.buckets import Sizes as Sizes
from graphopt.runtime.buckets import automatic as automatic
from graphopt.runtime.buckets import multiples_of as multiples_of
from graphopt.runtime.buckets import one_of as one_of
from graphopt.runtime.buckets import powers_of_two as powers_of_two
from graphopt.runtime.buckets import sequences as sequences
from graphopt.runtime.buckets import sparing as sparing
