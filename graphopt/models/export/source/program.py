"""The calls of a module: the call of each op, or of a few ops together, in one style.

Weights are grouped in layers by role: `linear_0.w_0` is the `weight` of `linear_0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.op import PdOp, bind_groups, call_rule
from graphopt.ir.dialect.ops.control import If, While, Yield
from graphopt.ir.dialect.ops.creation import Arange
from graphopt.ir.dialect.ops.dynamic import ArrayWrite, Dynamic, decode_properties
from graphopt.ir.dialect.ops.shape import Slice
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.signature import STATE, Port, main_function, signature_of
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, element_count, rank_of, shape_of
from graphopt.models.export.safetensors_file import NAMES
from graphopt.models.export.source import rules as rules  # registers every rule
from graphopt.models.export.source.calls import (
    RULES,
    Emit,
    Inner,
    NotReadable,
    SourceCall,
    fill_template,
    free_name,
    literal,
    number_of,
    with_labels,
)
from graphopt.models.export.source.table import CALLS, INFIX

Weights: TypeAlias = Mapping[SSAValue, tuple[str, str]]

# the roles of ops' operands, in the words of Paddle's functions
_ROLES: Mapping[str, Mapping[str, str]] = {
    **{
        name: {"filter": "weight", "bias": "bias"}
        for name in ("conv2d", "depthwise_conv2d", "conv3d", "conv2d_transpose", "conv3d_transpose")
    },
    "matmul": {"y": "weight", "bias": "bias"},
    "embedding": {"weight": "weight"},
    "batch_norm": {
        "scale": "weight",
        "bias": "bias",
        "mean": "running_mean",
        "variance": "running_var",
    },
    **{n: {"scale": "weight", "bias": "bias"} for n in ("layer_norm", "group_norm")},
    "instance_norm": {"scale": "weight", "bias": "bias"},
}
_ENDS = re.compile(
    r"\.(w_\d+|b_\d+|weight|bias|running_mean|running_var|value|(weight|bias)_[ih]h)$"
)


@dataclass
class SourceProgram:
    """A program as calls: inputs and outputs by name, and the weights by layer."""

    inputs: Sequence[Port]
    values: Sequence[SSAValue]
    outputs: Sequence[SSAValue]
    output_names: Sequence[str]
    calls: list[SourceCall]
    weights: Mapping[str, tuple[str, str]]
    dtypes: Sequence[str]
    is_wide: bool
    is_traced: bool
    """True for JAX functions in one trace; False if a loop carries growing values."""


def read_program(module: ModuleOp, feeds: Sequence[str], style: str) -> SourceProgram:
    """Read the calls of a module that takes `feeds` in this order.

    Raises UnsupportedError with all ops that have no readable form.
    """
    function, signature = main_function(module), signature_of(module)
    block = function.body.block
    ports = dict(zip(block.args, signature.arguments, strict=True))
    names: dict[SSAValue, str] = {
        value: port.name for value, port in ports.items() if port.kind == STATE
    }
    is_stepwise = style == "jax" and any(map(_is_growing, module.walk()))
    reader = _Reader(style, _layers(block, names), is_stepwise)
    last = block.last_op
    assert isinstance(last, ReturnOp)
    outputs = list(last.operands)
    calls = prune_calls(reader.block(block), outputs)
    for value, name in names.items():
        dtype = dtype_of(value.type)
        if style == "paddle" and dtype == "bfloat16":
            raise UnsupportedError(
                f"'{name}' is bfloat16, which NumPy arrays do not support; write the style jax"
            )
        if dtype not in NAMES or (style == "paddle" and not dtype.is_of_numpy):
            raise UnsupportedError(
                f"'{name}' is {dtype}, which the weights file of a script does not support; "
                "write .onnx"
            )
    refused = dict.fromkeys(
        f"{call.hint} ({_place(call)}): {call.refused}" for call in _all(calls) if call.refused
    )
    if refused:
        raise UnsupportedError(
            f"the program cannot be written as readable source for {style}:\n  "
            + "\n  ".join(refused)
            + "\nwrite .onnx instead, or the style "
            + ("paddle" if style == "jax" else "jax")
        )
    _name_attention(block, calls, reader.weights)
    inputs = [(value, port) for value, port in ports.items() if port.kind != STATE]
    inputs.sort(key=lambda item: feeds.index(item[1].name))
    return SourceProgram(
        inputs=[port for _, port in inputs],
        values=[value for value, _ in inputs],
        outputs=outputs,
        output_names=[port.name for port in signature.results],
        calls=calls,
        weights={names[value]: place for value, place in reader.weights.items()},
        dtypes=sorted({f"{dtype_of(value.type)}" for value in reader.weights}),
        # a write to an array needs its position as a Python number
        is_traced=style == "jax"
        and not is_stepwise
        and not any(isinstance(op, ArrayWrite) for op in module.walk()),
        is_wide=any(
            f"{dtype_of(value.type)}" in ("int64", "float64", "complex128")
            for op in module.walk()
            for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args))
        ),
    )


_BETWEEN = ("pd.add", "pd.scale", "pd.multiply", "pd.divide", "pd.where", "pd.dropout", "pd.cast")


def _name_attention(block: Block, calls: Sequence[SourceCall], weights: Weights) -> None:
    """Name the queries, keys, values and scores of attention."""
    hints: dict[SSAValue, str] = {}
    for op in block.ops:
        if op.name != "pd.softmax":
            continue
        scores = op.operands[0].owner
        while isinstance(scores, Operation) and scores.name in _BETWEEN:
            scores = next((v.owner for v in scores.operands if _of_matmul(v)), None)
        ahead = op.results[0]
        while ahead.has_one_use() and (after := next(iter(ahead.uses))).operation.name in _BETWEEN:
            ahead = after.operation.results[0]
        uses = [use.operation for use in ahead.uses if use.operation.name == "pd.matmul"]
        if not isinstance(scores, Operation) or scores.name != "pd.matmul" or len(uses) != 1:
            continue
        q, k = scores.operands
        v = uses[0].operands[1]
        if not any(value in weights for value in (q, k, v)) and len({q, k, v}) == 3:
            hints[scores.results[0]] = "scores"
            for name, value in (("q", q), ("k", k), ("v", v)):
                _name_back(value, name, hints)
    for call in calls:
        call.hint = hints.get(call.results[0], call.hint)


def _of_matmul(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and (owner.name == "pd.matmul" or owner.name in _BETWEEN)


def _name_back(value: SSAValue, name: str, hints: dict[SSAValue, str]) -> None:
    """Name a value and its producers, following each op's first operand."""
    while value.has_one_use() and isinstance(owner := value.owner, Operation):
        hints[value] = name
        if owner.name == "pd.matmul" or not owner.operands:
            return
        value = owner.operands[0]


def _all(calls: Sequence[SourceCall]) -> Iterator[SourceCall]:
    for call in calls:
        yield call
        for function in call.functions:
            yield from _all(function.calls)


def _place(call: SourceCall) -> str:
    return (call.results[0].name_hint if call.results else None) or "a result"


def prune_calls(calls: Sequence[SourceCall], outputs: Sequence[SSAValue]) -> list[SourceCall]:
    """Keep the calls that the outputs need."""
    needed, kept = set(outputs), list[SourceCall]()
    for call in reversed(calls):
        if needed.intersection(call.results):
            needed.update(read_by(call))
            kept.append(call)
    return kept[::-1]


def read_by(call: SourceCall) -> Iterator[SSAValue]:
    """Yield the values that a call reads, also in its inner functions."""
    yield from call.operands
    for function in call.functions:
        own = {*function.parameters, *(v for each in function.calls for v in each.results)}
        for value in (*(v for each in function.calls for v in read_by(each)), *function.operands):
            if value not in own:
                yield value


def _layers(block: Block, names: Mapping[SSAValue, str]) -> dict[SSAValue, tuple[str, str]]:
    """Assign each weight a layer and a role; the weights that one op reads are one layer."""
    # the text of calls has its own quotes, braces and angle brackets
    names = {value: re.sub(r"[^\w./:$ -]", "_", name) for value, name in names.items()}
    found: dict[SSAValue, tuple[str, str]] = {}
    taken: set[tuple[str, str]] = set()
    for op in block.walk():
        if not isinstance(op, PdOp):
            continue
        kind = op.name.removeprefix("pd.")
        fields = bind_groups(type(op), op.operand_groups())
        if kind == "rnn":
            _cells(fields["weight_list"], names, found, taken)
            continue
        roles = {
            role: fields[name]
            for name, role in _ROLES.get(kind, {}).items()
            if fields.get(name) in names
        }
        bias = find_bias(op)
        if bias is not None and bias[1] in names and roles:
            roles["bias"] = bias[1]
        if not roles or any(value in found for value in roles.values()):
            continue
        layer = _layer([names[value] for value in roles.values()])
        if not layer:
            continue
        layer = free_name(layer, {layer for layer, _ in taken})
        for role, value in roles.items():
            found[value] = layer, role
            taken.add(found[value])
    for value, name in names.items():
        if value not in found:
            role = "bias" if re.search(r"\.(b_\d+|bias)$", name) else "value"
            found[value] = free_name(_ENDS.sub("", name), {layer for layer, _ in taken}), role
            taken.add(found[value])
    return {value: found[value] for value in names}


_CELL = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _cells(
    weights: Sequence[SSAValue],
    names: Mapping[SSAValue, str],
    found: dict[SSAValue, tuple[str, str]],
    taken: set[tuple[str, str]],
) -> None:
    """Assign the weights of recurrent layers; each direction of each layer is one cell."""
    count = len(weights) // 4
    for at in range(count):
        own = [*weights[2 * at :][:2], *weights[2 * (count + at) :][:2]]
        layer = _layer([names.get(value, "") for value in own])
        if layer and not any(value in found for value in own):
            layer = free_name(layer, {layer for layer, _ in taken})
            for role, value in zip(_CELL, own, strict=True):
                found[value] = layer, role
                taken.add(found[value])


def _layer(names: Sequence[str]) -> str:
    """Find the common layer name of weights; empty if their names have none in common."""
    plain = {_ENDS.sub("", name) for name in names}
    return plain.pop() if len(plain) == 1 else _beginning(names).rstrip("._-/")


def find_bias(op: Operation) -> tuple[Operation, SSAValue] | None:
    """Find the addition of a bias to the result of an op, and the bias; None if there is none."""
    kind = op.name.removeprefix("pd.")
    if kind not in (
        "matmul",
        "conv2d",
        "depthwise_conv2d",
        "conv3d",
        "conv2d_transpose",
        "conv3d_transpose",
    ):
        return None
    made = op.results[0]
    use = next(iter(made.uses), None)
    if use is None or not made.has_one_use() or use.operation.name != "pd.add" or use.index:
        return None
    other = use.operation.operands[1]
    if kind == "matmul":
        weight = op.operands[1]
        plain_ = not (cast(PdOp, op).attr("transpose_x") or cast(PdOp, op).attr("transpose_y"))
        is_bias = rank_of(other.type) == 1 and rank_of(weight.type) == 2 and plain_
        fits = shape_of(other.type) == shape_of(weight.type)[1:]
        return (use.operation, other) if is_bias and fits and _is_argument(weight) else None
    before = other.owner
    if not isinstance(before, Operation) or before.name != "pd.reshape":
        return None
    vector = before.operands[0]
    sizes = shape_of(made.type)
    per_channel = (1, sizes[1], *(1 for _ in sizes[2:]))
    fits = shape_of(other.type) in (per_channel, per_channel[1:]) and rank_of(vector.type) == 1
    return (use.operation, vector) if fits and _is_argument(vector) else None


def _is_argument(value: SSAValue) -> bool:
    return isinstance(value.owner, Block)


def _beginning(names: Sequence[str]) -> str:
    """Find the longest common prefix of names."""
    first, last = min(names), max(names)
    same = [a == b for a, b in zip(first, last, strict=False)]
    return first[: same.index(False) if False in same else len(same)]


@dataclass(frozen=True)
class _Computed:
    """A size computed from two others by a Python operator."""

    left: Size
    operator: str
    right: Size


# the size of an axis of a value, a number, or a computation on these
Size: TypeAlias = "int | tuple[SSAValue, int] | _Computed"
_ON_SIZES = {"add": "+", "subtract": "-", "multiply": "*", "floor_divide": "//"}


@dataclass
class _Reader:
    """Reads the calls of blocks; an op without a readable form becomes a call with the reason."""

    style: str
    weights: Weights
    is_stepwise: bool = False
    """True for JAX without `jax.jit`: loops carry growing values, and sizes are Python numbers."""
    sizes: dict[SSAValue, list[Size]] = field(default_factory=dict[SSAValue, list[Size]])
    together: dict[Operation, Operation] = field(default_factory=dict[Operation, Operation])

    def block(self, block: Block) -> list[SourceCall]:
        """Read the calls of a block without its terminator."""
        calls: list[SourceCall] = []
        for op in block.ops:
            if isinstance(op, (Yield, ReturnOp)):
                continue
            calls += self.op(op)
        return calls

    def op(self, op: Operation) -> list[SourceCall]:
        """Read the call of an op; [] if a later op is written together with it."""
        assert isinstance(op, PdOp), op
        self._note_sizes(op)
        bias = find_bias(op)
        if bias is not None:
            self.together[bias[0]] = op
            return []
        try:
            return [self._call(op)]
        except NotReadable as error:
            reads = [value for value in values_read(op) if value not in self.weights]
            return [SourceCall("", op.results, reads, hint=op.name, refused=str(error))]

    def _call(self, op: PdOp) -> SourceCall:
        if isinstance(op, If):
            return self._if(op)
        if isinstance(op, While):
            return self._while(op)
        used = [at for at, value in enumerate(op.results) if value.uses]
        emit = Emit(self.style, self.weights, op, used)
        kind = op.name.removeprefix("pd.")
        own = self.together.get(op)
        if own is not None:
            assert isinstance(own, PdOp)
            bias = find_bias(own)
            assert bias is not None
            emit.op, kind = own, own.name.removeprefix("pd.")
            values = bind_groups(type(own), own.operand_groups()) | own.attr_values()
            text = call_rule(RULES[kind], {"emit": emit, **values, "bias": bias[1]})
        elif isinstance(op, Dynamic):
            text = self._dynamic(emit, op)
        elif kind in INFIX:
            text = self._infix(emit, op, INFIX[kind])
        elif kind in RULES:
            values = bind_groups(type(op), op.operand_groups()) | op.attr_values()
            text = call_rule(RULES[kind], {"emit": emit, **values})
        else:
            template = CALLS.get(kind, ("", ""))[self.style == "jax"]
            if not template:
                raise NotReadable("there is no equivalent call")
            operands = bind_groups(type(op), op.operand_groups())
            text = fill_template(template, emit, operands, op.attr_values())
            emit.call.hint = kind
        call = emit.call
        call.text = text
        call.hint = call.hint or kind
        if kind in _SEVERAL:
            call.results = list(op.results)
        elif any(used) and kind != "argsort":
            raise NotReadable("a result after the first is read")
        else:
            call.results = [op.results[used[0] if used else 0]]
        return call

    def _infix(self, emit: Emit, op: PdOp, operator: str) -> str:
        x, y = op.operands
        numbers = self._number(x, y), self._number(y, x)
        if numbers[0] is not None and numbers[1] is not None:
            numbers = None, numbers[1]
        left, right = numbers[0] or emit.value(x), numbers[1] or emit.value(y)
        if operator == "/" and dtype_of(x.type).numpy.kind in "iu":
            if not emit.is_jax:
                raise NotReadable("the quotients are integers, which Paddle 3 does not support")
            return f"lax.div(*jnp.broadcast_arrays({left}, {right}))"
        return f"{left} {operator} {right}"

    def _number(self, value: SSAValue, other: SSAValue) -> str | None:
        """Format a one-element constant as a literal if that preserves shape and dtype."""
        owner = value.owner
        if not isinstance(owner, PdOp) or owner.name not in ("pd.full", "pd.assign_value"):
            return None
        shape = shape_of(value.type)
        if any(size != 1 for size in shape) or len(shape) > rank_of(other.type):
            return None
        if dtype_of(value.type) != dtype_of(other.type) or other in self.weights:
            return None
        number = owner.attr("value") if owner.name == "pd.full" else owner.attr("values")[0]
        kind = dtype_of(value.type).numpy.kind
        if kind not in "fiu":
            return None
        return literal(int(number) if kind in "iu" else float(number))

    def _note_sizes(self, op: PdOp) -> None:
        found = self._sizes(op)
        if found is not None:
            self.sizes[op.results[0]] = found

    def _sizes(self, op: PdOp) -> list[Size] | None:
        kind = op.name.removeprefix("pd.")
        if kind == "shape":
            (x,) = op.operands
            dims = shape_of(x.type)
            return [(x, at) if size == UNKNOWN else size for at, size in enumerate(dims)]
        if not op.results or rank_of(op.results[0].type) > 1:
            return None
        if dtype_of(op.results[0].type).numpy.kind not in "iu":
            return None
        if kind == "full" and shape_of(op.results[0].type) in ((), (1,)):
            return [int(op.attr("value"))]
        if kind == "assign_value":
            return [int(value) for value in op.attr("values")]
        if any(value not in self.sizes for value in op.operands) or not op.operands:
            return None
        parts = [self.sizes[value] for value in op.operands]
        if kind in ("cast", "reshape", "squeeze", "unsqueeze", "flatten", "assign"):
            return parts[0]
        if kind in ("concat", "stack"):
            return [size for part in parts for size in part]
        if kind == "slice":
            (start,), (end,) = op.attr("starts"), op.attr("ends")
            return parts[0][start:end]
        if kind in _ON_SIZES and all(len(part) == 1 for part in parts):
            return [_Computed(parts[0][0], _ON_SIZES[kind], parts[1][0])]
        if kind == "scale" and op.attr("scale") == 1 and len(parts[0]) == 1:
            return [_Computed(parts[0][0], "+", int(op.attr("bias")))]
        return None

    def _list_sizes(self, emit: Emit, value: SSAValue, kept: SSAValue | None = None) -> str:
        """Format sizes as a list of numbers and axis sizes; -1 is the size of `kept`."""
        texts = self._texts(emit, value, kept)
        return emit.value(value) if texts is None else f"[{', '.join(texts)}]"

    def _texts(self, emit: Emit, value: SSAValue, kept: SSAValue | None = None) -> list[str] | None:
        """Format each size of a list; None for a tensor of sizes, which only Paddle takes."""
        if value not in self.sizes:
            if not emit.is_jax:
                return None
            if not self.is_stepwise or UNKNOWN in shape_of(value.type):
                raise NotReadable("the sizes depend on data")
            flat = f"{emit.value(value)}.reshape(-1)"
            return [f"int({flat}[{at}])" for at in range(element_count(shape_of(value.type)))]
        texts: list[str] = []
        for at, size in enumerate(self.sizes[value], -len(self.sizes[value])):
            if size == -1 and kept is not None:
                texts.append(f"{emit.value(kept)}.shape[{at}]")
            else:
                texts.append(self._text(emit, size))
        return texts

    def _text(self, emit: Emit, size: Size) -> str:
        """Format a size as a Python expression."""
        if isinstance(size, int):
            return str(size)
        if isinstance(size, _Computed):
            sides = [
                f"({self._text(emit, side)})"
                if isinstance(side, _Computed)
                else self._text(emit, side)
                for side in (size.left, size.right)
            ]
            return f"{sides[0]} {size.operator} {sides[1]}"
        value, axis = size
        x = emit.value(value)
        return f"{x}.shape[{axis}]" if emit.is_jax else f"paddle.shape({x})[{axis}]"

    def _slice(self, emit: Emit, op: Dynamic, x: SSAValue, bounds: Sequence[SSAValue]) -> str:
        """Format a slice of x whose bounds are other values."""
        given = dict(zip(op.attr("dynamic"), bounds, strict=True))
        known = decode_properties(Slice, op.attr("attrs"))
        axes, gone = list(known["axes"]), list(known["decrease_axis"])
        sides: list[list[str] | str] = []
        for name in ("starts", "ends"):
            texts = [str(number) for number in known[name]] if name not in given else None
            if texts is None:
                texts = self._texts(emit, given[name]) or emit.value(given[name])
            sides.append(texts)
        if not emit.is_jax:
            starts, ends = (s if isinstance(s, str) else f"[{', '.join(s)}]" for s in sides)
            text = f"paddle.slice({emit.value(x)}, {axes}, {starts}, {ends})"
            return f"paddle.squeeze({text}, {gone})" if gone else text
        places = [":"] * rank_of(x.type)
        for axis, start, end in zip(axes, *sides, strict=True):
            last = "" if end.isdigit() and int(end) >= 2**31 - 1 else end
            places[axis] = f"{'' if start == '0' else start}:{last}"
        text = f"{emit.value(x)}[{', '.join(places[: max(axes) + 1])}]"
        return f"{text}.squeeze({tuple(gone)})" if gone else text

    def _arange(self, emit: Emit, op: Dynamic, end: SSAValue) -> str:
        """Format a range from a known number to a computed end."""
        texts, known = self._texts(emit, end), decode_properties(Arange, op.attr("attrs"))
        dtype = dtype_of(op.results[0].type)
        start, step = (number_of(dtype, known[name]) for name in ("start", "step"))
        bounds = f"{literal(start)}, {emit.value(end) if texts is None else texts[0]}"
        return f'{emit.module}.arange({bounds}, {literal(step)}, dtype="{dtype}")'

    def _dynamic(self, emit: Emit, op: Dynamic) -> str:
        names, kind = op.attr("dynamic"), op.attr("op").removeprefix("pd.")
        inputs, values = op.operand_groups()
        emit.call.hint = kind
        if kind == "slice" and set(names) <= {"starts", "ends"}:
            return self._slice(emit, op, inputs[0], values)
        if kind == "tile" and list(names) == ["repeat_times"]:
            counts = self._list_sizes(emit, values[0])
            return f"{emit.module}.tile({emit.value(inputs[0])}, {counts})"
        if kind == "arange" and list(names) == ["end"]:
            return self._arange(emit, op, values[0])
        if list(names) != ["shape"] or kind not in ("full", "expand", "reshape"):
            raise NotReadable(f"{', '.join(names)} of {kind} is known only when the program runs")
        sizes = self._list_sizes(emit, values[0])
        if kind == "full":
            attrs = op.attr("attrs").data
            dtype = dtype_of(op.results[0].type)
            number = literal(number_of(dtype, float(attrs["value"].value.data)))
            return f'{emit.module}.full({sizes}, {number}, dtype="{dtype}")'
        x = inputs[0]
        owner = x.owner
        if kind == "expand":
            if isinstance(owner, PdOp) and owner.name == "pd.full" and not shape_of(x.type):
                dtype = dtype_of(x.type)
                number = literal(number_of(dtype, owner.attr("value")))
                emit.call.hint = "full"
                return f'{emit.module}.full({sizes}, {number}, dtype="{dtype}")'
            if not emit.is_jax:
                return f"paddle.expand({emit.value(x)}, {sizes})"
            sizes = self._list_sizes(emit, values[0], kept=x)
            return f"jnp.broadcast_to({emit.value(x)}, {sizes})"
        return f"{emit.module}.reshape({emit.value(x)}, {sizes})"

    def _if(self, op: If) -> SourceCall:
        emit = Emit(self.style, self.weights, op, range(len(op.results)))
        condition = self._flag(emit, op.operands[0])
        functions = [
            self._inner(region.block, name)
            for region, name in zip(op.regions, ("then", "otherwise"), strict=True)
        ]
        if emit.is_jax:
            ends = [region.block.last_op for region in op.regions]
            kinds = [[value.type for value in end.operands] for end in ends if end is not None]
            if kinds[0] != kinds[1] and not self.is_stepwise:
                raise NotReadable("the branches return results of different types")
        name = "lax.cond" if emit.is_jax else "paddle.static.nn.cond"
        call = emit.call
        call.text, call.results, call.functions = (
            f"(@0 if {condition} else @1)()"
            if emit.is_jax and self.is_stepwise
            else f"{name}({condition}, @0, @1)",
            list(op.results),
            functions,
        )
        call.hint = "chosen"
        return call

    def _flag(self, emit: Emit, condition: SSAValue) -> str:
        text = emit.value(condition)
        return f"{text}.reshape(())" if emit.is_jax and rank_of(condition.type) else text

    def _inner(self, block: Block, name: str, results: Sequence[SSAValue] | None = None) -> Inner:
        calls = self.block(block)
        last = block.last_op
        assert last is not None
        given = list(last.operands if results is None else results)
        emit = Emit(self.style, self.weights, cast(PdOp, last), ())
        texts = [emit.value(value) for value in given]
        calls = prune_calls(calls, emit.call.operands)
        if emit.call.labels:
            texts = [with_labels(text, emit.call.labels) for text in texts]
        return Inner(name, list(block.args), calls, texts, emit.call.operands)

    def _while(self, op: While) -> SourceCall:
        condition, *carried = op.operands
        block = op.regions[0].block
        if self.style == "paddle" and any(map(_is_of_other_rows, carried, block.args)):
            raise NotReadable("the initial value of an array has no element sizes")
        last = block.last_op
        assert last is not None
        again, *new = last.operands
        copies = self._condition(condition, again, carried, new, block)
        arguments, results = list[SSAValue](block.args), list[SSAValue](op.results)
        if copies is None:
            # the loop also carries the condition
            first, last = Block(arg_types=[again.type] * 2).args
            copies = [], first
            carried, new = [condition, *carried], [again, *new]
            arguments, results = [first, *arguments], [last, *results]
        ops, flag = copies
        calls = [call for each in ops for call in self.op(each)]
        emit = Emit(self.style, self.weights, op, range(len(op.results)))
        text = self._flag(emit, flag)
        test = Inner(
            "goes_on", arguments, prune_calls(calls, [flag]), [text], list(emit.call.operands)
        )
        body = self._inner(block, "turn", new)
        body.parameters = arguments
        emit = Emit(self.style, self.weights, op, range(len(op.results)))
        start = ", ".join(emit.value(value) for value in carried)
        one_tuple = f"({start},)" if len(carried) == 1 else f"({start})"
        call = emit.call
        if emit.is_jax and _is_growing(op):
            call.text = f"growing_loop(@0, @1, {one_tuple})"
        elif emit.is_jax:
            # JAX's loop carries one tuple
            call.text = f"lax.while_loop(lambda now: @0(*now), lambda now: @1(*now), {one_tuple})"
        else:
            call.text = f"paddle.static.nn.while_loop(@0, @1, [{start}])"
        call.results, call.functions, call.hint = results, [test, body], "looped"
        return call

    def _condition(
        self,
        before: SSAValue,
        after: SSAValue,
        carried: Sequence[SSAValue],
        new: Sequence[SSAValue],
        block: Block,
    ) -> tuple[list[Operation], SSAValue] | None:
        """Clone the ops that compute the loop's condition from its arguments, or return None."""
        order: list[Operation] = []

        def same(one: SSAValue, other: SSAValue) -> bool:
            if any(one is a and other is b for a, b in zip(carried, new, strict=True)):
                return True
            if one is other:
                return True
            first, second = one.owner, other.owner
            if not (isinstance(first, Operation) and isinstance(second, Operation)):
                return False
            alike = (
                type(first) is type(second)
                and first.properties == second.properties
                and cast(OpResult, one).index == cast(OpResult, other).index
                and len(first.operands) == len(second.operands)
                and not first.regions
            )
            if not alike or not all(map(same, first.operands, second.operands)):
                return False
            if first not in order:
                order.append(first)
            return True

        if not same(before, after):
            return None
        copies: dict[SSAValue, SSAValue] = dict(zip(carried, block.args, strict=True))
        made = [op.clone(copies) for op in order]
        return made, copies.get(before, before)


_GROWING = ("pd.concat", "pd.array_write")
_SEVERAL = ("split", "unbind", "topk", "rnn")
"""The ops whose calls return all their results."""


def _is_of_other_rows(start: SSAValue, carried: SSAValue) -> bool:
    """True for an empty value whose row sizes differ from the loop's values."""
    sizes = shape_of(start.type)
    return sizes[:1] == (0,) and sizes[1:] != shape_of(carried.type)[1:]


def _is_growing(op: Operation) -> bool:
    """True for a loop that carries a growing value, which JAX's loop cannot."""
    if not isinstance(op, While):
        return False
    block = op.regions[0].block
    last = block.last_op
    assert last is not None
    return any(map(_grows, op.operands[1:], block.args, last.operands[1:]))


def _grows(start: SSAValue, carried: SSAValue, new: SSAValue) -> bool:
    """True for a carried value whose sizes change between iterations."""
    known, own = shape_of(start.type), shape_of(carried.type)
    if len(known) != len(own) or any(a != b for a, b in zip(known, own, strict=True)):
        return True
    owner = new.owner
    return isinstance(owner, PdOp) and owner.name in _GROWING and carried in owner.operands
