"""Checks of fed ids and divisors before a step: a compiled step cannot raise for a wrong one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphopt.errors import CheckError, IndexRangeError
from graphopt.ir.dialect.index_bound import IndexBound
from graphopt.runtime.settings.flags import IDS, checks_ids
from graphopt.runtime.state.arrays import HostArray, as_numpy


def check_ids(
    bounds: Mapping[str, Sequence[IndexBound]], feeds: Mapping[str, Any], verb: str = "was fed"
) -> None:
    """Check the numbers by which ops index or divide, in feeds or in state (`verb` "holds").

    Raise IndexRangeError with the variable, the number, its position and the op, and CheckError for
    a 0 that divides. The flag `FLAGS_graphopt_check_ids` disables this.
    """
    if not checks_ids():
        return
    for name, wanted in bounds.items():
        fed = feeds[name]
        for array in fed if isinstance(fed, list) else (fed,):
            # another process checks its own parts
            if getattr(array, "is_fully_addressable", True):
                for bound in wanted:
                    _check(name, as_numpy(array), bound, verb)


def _check(name: str, ids: HostArray, bound: IndexBound, verb: str) -> None:
    if not ids.size or ids.dtype.kind not in "iu":
        return
    if bound.divides:
        _check_divisor(name, ids, bound, verb)
        return
    # as unsigned numbers, negative ids are large, so one pass over the ids checks both bounds
    plain = ids.view(f"u{ids.dtype.itemsize}") if ids.dtype.kind == "i" else ids
    if bound.low == 0 and plain.max() < bound.high:
        return
    wrong = (ids < bound.low) | (ids >= bound.high)
    if bound.allowed is not None:
        wrong &= ids != bound.allowed
    if not wrong.any():
        return
    at = np.unravel_index(int(wrong.argmax()), ids.shape)
    beyond = bound.allowed is not None and not bound.low <= bound.allowed < bound.high
    besides = f" or {bound.allowed}" if beyond else ""
    raise IndexRangeError(
        f"'{name}' was fed {ids[at]} at {[int(i) for i in at]}, which is out of range: "
        f"{bound.reader} accepts numbers from {bound.low} to {bound.high - 1}{besides}. Correct "
        f"the feed; set_flags({{'{IDS}': 'off'}}) disables this check"
    )


def _check_divisor(name: str, numbers: HostArray, bound: IndexBound, verb: str) -> None:
    if np.count_nonzero(numbers) == numbers.size:  # several times as fast as all()
        return
    at = np.unravel_index(int((numbers == 0).argmax()), numbers.shape)
    raise CheckError(
        f"{bound.division}: '{name}' {verb} 0 at {[int(i) for i in at]}. Correct the divisor; "
        f"set_flags({{'{IDS}': 'off'}}) disables this check"
    )
