"""Explicit gradient operators of saved programs, each linked to its forward operator.

Paddle's saved training programs hold an operator `T_grad` for each operator `T`. For some types it
is an operator of another type that computes the same: the gradient of `scale` is a `scale`. Here
each is recognized by the values that it mentions; `raising.py` decides whether a set of them makes
up a whole derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from graphopt.errors import UnsupportedError
from graphopt.ir.program import GRAD_SUFFIX, Operator
from graphopt.ir.program.gradient_types import forward_type
from graphopt.ir.translate.gradients.types import (
    HINTS,
    TRANSPOSES,
    is_linear,
    needs_shapes_only,
    same_attributes,
)
from graphopt.ir.translate.gradients.versions import Mentions, OpPosition, VersionedName, Versions


@dataclass(frozen=True)
class GradientLink:
    """The gradient operator `at`: a vector-Jacobian product of the operator `forward`.

    `cotangents` maps results of the forward operator to the gradients that `at` reads. `results`
    maps positions of the forward operator's inputs to the gradients that `at` computes.
    """

    at: int
    forward: int
    cotangents: Mapping[VersionedName, VersionedName]
    results: Mapping[OpPosition, VersionedName]
    later: Mapping[OpPosition, VersionedName] = field(
        default_factory=dict[OpPosition, VersionedName]
    )
    """Inputs that were overwritten since; the gradient operator reads the later values."""


def base_name(name: str) -> str | None:
    """Extract the variable name from a gradient's name; None for other names."""
    plain = name.split("@RENAME@")[0]
    while plain.startswith("grad/"):
        plain = plain.removeprefix("grad/")
    return plain.removesuffix(GRAD_SUFFIX) if plain.endswith(GRAD_SUFFIX) else None


def find_link(
    versions: Versions, at: int, owner: Callable[[VersionedName], VersionedName | None]
) -> GradientLink:
    """Link the gradient operator `at` to its forward operator.

    `owner` returns the value that a gradient belongs to, if known. Raises UnsupportedError if no
    earlier operator matches.
    """
    op = versions.ops[at]
    wanted = forward_type(op.type)
    candidates = [i for i in range(at - 1, -1, -1) if versions.ops[i].type == wanted]
    for exact in (True, False):
        for index in candidates:
            later = _later(versions, index, at)
            if later is None or (exact and later):
                continue
            link = _link(versions, index, at, later)
            if all(owner(g) in (None, v) for v, g in link.cotangents.items()):
                _check_attributes(versions.ops[index], op)
                return link
    raise UnsupportedError(
        f"operator {op.type} -> {', '.join(op.output_arg_names)}: no earlier operator {wanted} has "
        "the inputs and outputs that this gradient operator reads"
    )


def _later(versions: Versions, forward: int, at: int) -> Mentions | None:
    """Find the forward operator's inputs that the gradient operator reads with later values.

    Return None if it does not read the values that the forward operator read and wrote.
    """
    reads, writes = versions.reads[forward], versions.writes[forward]
    known = set(reads.values()) | set(writes.values())
    later: Mentions = {}
    for place, value in versions.reads[at].items():
        if _is_cotangent(versions, forward, place):
            continue
        read, written = reads.get(place), writes.get(place)
        if read is None and written is None:
            # gradients of gradients use other slot names
            if value not in known and not _takes_cotangent(versions, forward, value):
                return None
        elif value in (read, written) or _is_in_place(value, read, writes):
            continue
        elif read is not None and read.name == value.name:
            if not _only_shape(versions.ops[forward], place.slot):
                later[place] = value
        else:
            return None
    by_name = (base_name(v.name) for v in _cotangents(versions, forward, at))
    names = {value.name for value in writes.values()}
    return later if all(name is None or name in names for name in by_name) else None


def _only_shape(op: Operator, slot: str) -> bool:
    """True when the gradient needs only the shape of an input."""
    return needs_shapes_only(op) or (op.type.startswith("lookup_table") and slot == "W")


def _is_in_place(value: VersionedName, read: VersionedName | None, writes: Mentions) -> bool:
    """True for a value that an operator writes under the name that it reads."""
    return read is not None and value.name == read.name and value in writes.values()


def _is_cotangent(versions: Versions, forward: int, place: OpPosition) -> bool:
    """True for a slot `Out@GRAD` of an operator with the output `Out`."""
    slot = place.slot.removesuffix(GRAD_SUFFIX)
    return slot != place.slot and slot in versions.ops[forward].outputs


def _takes_cotangent(versions: Versions, forward: int, value: VersionedName) -> bool:
    base = base_name(value.name)
    return base in {written.name for written in versions.writes[forward].values()}


def _cotangents(versions: Versions, forward: int, at: int) -> Iterator[VersionedName]:
    for place, value in versions.reads[at].items():
        if _is_cotangent(versions, forward, place):
            yield value


def _link(versions: Versions, forward: int, at: int, later: Mentions) -> GradientLink:
    op, target = versions.ops[at], versions.ops[forward]
    reads, writes = versions.reads[forward], versions.writes[forward]
    mentioned = set(reads.values()) | set(writes.values())
    cotangents: dict[VersionedName, VersionedName] = {}
    for place, value in versions.reads[at].items():
        slot = place.slot.removesuffix(GRAD_SUFFIX)
        if slot != place.slot and slot in target.outputs:
            aligned = len(op.inputs[place.slot]) == len(target.outputs[slot])
            found = writes.get(OpPosition(slot, place.position)) if aligned else None
            found = found or _find_named(writes, base_name(value.name))
        elif value not in mentioned:
            found = _find_named(writes, base_name(value.name))
        else:
            found = None
        if found is not None:
            cotangents[found] = value
    results: dict[OpPosition, VersionedName] = {}
    for place, value in versions.writes[at].items():
        slot = place.slot.removesuffix(GRAD_SUFFIX)
        if slot != place.slot and len(target.inputs.get(slot, ())) == len(op.outputs[place.slot]):
            results[OpPosition(slot, place.position)] = value
            continue
        base = base_name(value.name)
        inputs = [p for p, v in reads.items() if v.name == base and p not in results]
        if not inputs:
            raise UnsupportedError(
                f"operator {op.type} writes '{value.name}' in slot '{place.slot}', which is not "
                f"the gradient of an input of its forward operator {target.type}"
            )
        results[inputs[0]] = value
    return GradientLink(at, forward, cotangents, results, later)


def _find_named(mentions: Mentions, name: str | None) -> VersionedName | None:
    return next((value for value in mentions.values() if value.name == name), None)


def _check_attributes(forward: Operator, op: Operator) -> None:
    """Raise UnsupportedError unless the two operators agree on their common attributes."""
    for name in forward.attrs.keys() & op.attrs.keys() - HINTS:
        if forward.attrs[name] != op.attrs[name]:
            raise UnsupportedError(
                f"operator {op.type} has {name} = {op.attrs[name]!r}, but its forward operator "
                f"{forward.type} has {forward.attrs[name]!r}"
            )


def find_disguised(
    versions: Versions,
    at: int,
    owner: Callable[[VersionedName], VersionedName | None],
    taken: set[OpPosition],
) -> GradientLink | None:
    """Link an operator that computes a gradient in spite of its type; None for other operators.

    `taken` has the input positions of the forward operator that other operators differentiate
    already.
    """
    op = versions.ops[at]
    if not any(op.type == kind for _, kind in TRANSPOSES) and not is_linear(op):
        return None
    slots = [p for p in versions.reads[at] if p.slot in ("X", "Input")]
    gradients = [versions.reads[at][p] for p in slots]
    if not gradients:
        return None
    values = [_owner(versions, at, g, owner) for g in gradients]
    if any(value is None or value not in versions.producer for value in values):
        return None
    of = [value for value in values if value is not None]
    forward = versions.producer[of[0]]
    outputs = [v for p, v in versions.writes[forward].items() if p.slot in ("Out", "Y", "Output")]
    target = versions.ops[forward]
    if forward_type(target.type) == op.type and is_linear(op):
        return _derives_linear(versions, forward, at, dict(zip(of, gradients, strict=True)))
    check = TRANSPOSES.get((target.type, op.type))
    if check is None or of != outputs or not check(target, op):
        return None
    given = list(versions.writes[at].values())
    inputs = [p for p in versions.reads[forward] if p.slot == "X" and p not in taken]
    if len(given) == 1 and len(inputs) > 1:
        base = base_name(given[0].name)
        inputs = [p for p in inputs if versions.reads[forward][p].name == base][:1]
    if len(given) != len(inputs):
        return None
    cotangents = dict(zip(of, gradients, strict=True))
    return GradientLink(at, forward, cotangents, dict(zip(inputs, given, strict=True)))


def _owner(
    versions: Versions,
    at: int,
    gradient: VersionedName,
    owner: Callable[[VersionedName], VersionedName | None],
) -> VersionedName | None:
    """Find the value that a gradient belongs to: by its links, else by its name."""
    known = owner(gradient)
    base = base_name(gradient.name)
    if known is not None or base is None:
        return known
    before = [v for v, index in versions.producer.items() if v.name == base and index < at]
    return max(before, default=None)


def _derives_linear(
    versions: Versions, forward: int, at: int, cotangents: Mapping[VersionedName, VersionedName]
) -> GradientLink | None:
    """Link `at` as the derivative of `forward`, the gradient of an operator of its own type."""
    op, target = versions.ops[at], versions.ops[forward]
    places = [p for p in versions.reads[forward] if p.slot.endswith(GRAD_SUFFIX)]
    given = [v for p, v in versions.writes[at].items() if p.slot in ("Out", "Y", "Output")]
    if len(places) != 1 or len(given) != 1 or not same_attributes(op, target):
        return None
    return GradientLink(at, forward, cotangents, {places[0]: given[0]})
