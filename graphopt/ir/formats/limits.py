"""Limits on the resources that a model file may use before it is refused.

The defaults leave room for the largest published models; a service that reads files from strangers
passes a tighter `Limits`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Limits:
    """Upper bounds on the contents of one model; exceeding one raises `LimitError`.

    `program_bytes` and `params_bytes` are file sizes; `json_bytes` is the file size of a program in
    JSON, which takes about 20 times as much memory. A decoded operator or variable costs up to
    about 1 kB, however few bytes the file spends on it, so `operators` and `variables` bound the
    memory; `messages` counts every protobuf message and bounds the time. `block_depth` is the
    nesting depth of sub-blocks; `block_runs` counts the blocks that run when every operator that
    runs one is unfolded; `rank` is the number of dimensions of a tensor, `dimension` the size of
    one, `lod_levels` the number of levels of sequence offsets, and `tensor_bytes` the size of one
    tensor's data. `pickle_steps` counts the opcodes of a pickle, each of which may create a
    container, and `nesting` is the nesting depth of containers.
    """

    program_bytes: int = 1 << 28
    json_bytes: int = 1 << 26
    params_bytes: int = 1 << 37
    tensor_bytes: int = 1 << 36
    messages: int = 4_000_000
    blocks: int = 4096
    block_depth: int = 64
    block_runs: int = 100_000
    operators: int = 250_000
    variables: int = 500_000
    rank: int = 9
    dimension: int = 1 << 48
    lod_levels: int = 8
    pickle_steps: int = 20_000_000
    nesting: int = 200


# For bytes that were checked when they were first read.
UNLIMITED = Limits(*(sys.maxsize for _ in fields(Limits)))
