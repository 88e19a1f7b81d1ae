"""Feeds of many sizes as a few: `static.Executor(buckets=Buckets({"batch": powers_of_two(8)}))`."""

from graphopt.runtime.feeds.buckets import Buckets as Buckets
from graphopt.runtime.feeds.buckets import Sizes as Sizes
from graphopt.runtime.feeds.buckets import automatic as automatic
from graphopt.runtime.feeds.buckets import multiples_of as multiples_of
from graphopt.runtime.feeds.buckets import one_of as one_of
from graphopt.runtime.feeds.buckets import powers_of_two as powers_of_two
from graphopt.runtime.feeds.buckets import sequences as sequences
from graphopt.runtime.feeds.buckets import sparing as sparing
