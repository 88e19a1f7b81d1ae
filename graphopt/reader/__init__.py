"""Readers: functions without arguments that return an iterator of samples (paddle.reader)."""

from graphopt.frontend.missing import explain
from graphopt.reader.decorator import ComposeNotAligned as ComposeNotAligned
from graphopt.reader.decorator import buffered as buffered
from graphopt.reader.decorator import cache as cache
from graphopt.reader.decorator import chain as chain
from graphopt.reader.decorator import compose as compose
from graphopt.reader.decorator import firstn as firstn
from graphopt.reader.decorator import map_readers as map_readers
from graphopt.reader.decorator import multiprocess_reader as multiprocess_reader
from graphopt.reader.decorator import shuffle as shuffle
from graphopt.reader.decorator import xmap_readers as xmap_readers

explain(globals())
