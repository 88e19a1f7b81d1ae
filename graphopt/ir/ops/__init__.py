"""The ops of the `pd` dialect, one file per family; `ALL` lists every concrete op class."""

from __future__ import annotations

from graphopt.ir.op import PdOp
from graphopt.ir.ops import (
    activation,
    adaptive_update,
    alignment,
    callback,
    combine,
    comm,
    complex,
    control,
    conv,
    conv_transpose,
    creation,
    data_sized,
    debug,
    decompose,
    elementary,
    fused,
    grad,
    hierarchical,
    index,
    late,
    linalg,
    linear,
    logic,
    loss,
    math,
    metric,
    norm,
    optimizer,
    place,
    plain_update,
    pool_index,
    random,
    rearrange,
    recurrent,
    reduce,
    region,
    rescale,
    scan,
    scatter,
    shape,
    sort,
    special,
    spectral,
    vision,
    vjp,
)

FAMILIES = (
    activation,
    adaptive_update,
    callback,
    alignment,
    combine,
    comm,
    complex,
    control,
    conv,
    conv_transpose,
    creation,
    data_sized,
    decompose,
    debug,
    elementary,
    fused,
    grad,
    hierarchical,
    index,
    late,
    linalg,
    linear,
    logic,
    loss,
    math,
    metric,
    norm,
    optimizer,
    plain_update,
    place,
    pool_index,
    random,
    rearrange,
    recurrent,
    reduce,
    rescale,
    scan,
    region,
    scatter,
    shape,
    vision,
    vjp,
    sort,
    special,
    spectral,
)

ALL: tuple[type[PdOp], ...] = tuple(
    value
    for family in FAMILIES
    for value in vars(family).values()
    if isinstance(value, type)
    and issubclass(value, PdOp)
    and value.__module__ == family.__name__
    and "name" in vars(value)
)

BY_NAME: dict[str, type[PdOp]] = {op.name: op for op in ALL}
