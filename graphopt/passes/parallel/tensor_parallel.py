"""tensor_parallel_degree: the devices of a replica compute with pieces of its parameters.

A product with a parameter that is cut by columns gives columns. A product with a parameter cut by
rows takes columns and gives terms of a sum. So a pair of them needs one sum forward
(`pd.mp_allreduce_sum`) and one in the derivative (`pd.c_identity`). In between, ops compute with
pieces (`cut_forms.py`); an op that needs a whole value reads a gathered one (`pd.c_concat`).
Optimizer state is cut like its parameter. `cut_search.py` searches for the parameters to cut, and
for their axes. Shoeybi and others, 2019.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from graphopt.display.units import several, size
from graphopt.ir.dialect.differentiated import active_values, ops_before, path_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.comm import CConcat, CIdentity, CSplit, MpAllReduceSum
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.ops.update.plain import Dpsgd
from graphopt.ir.dialect.signature import CUT, SHARD_OF, STATE, Port, main_function, signature_of
from graphopt.ir.dialect.signature_edit import SignatureEdit, edit_signature
from graphopt.ir.dialect.types import UNKNOWN, byte_count, rank_of, shape_of
from graphopt.passes.engine.fusion import Applied, Outcome, Reason
from graphopt.passes.engine.naming import show_op, source_line
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, insert
from graphopt.passes.parallel.cut_forms import CutForm, cut_forms, piece_type
from graphopt.passes.parallel.cut_search import PRODUCTS, Cuts, CutSearch, Price
from graphopt.passes.parallel.joining import JOIN_BYTES
from graphopt.passes.parallel.shard_updates import spread_operands


@dataclass(frozen=True)
class TensorParallel(RewritePass):
    """Cut parameters into `degree` pieces where a device saves more bytes than it sends.

    `replicas` is the number of replicas that sum up gradients, `rows` is the assumed value of an
    open size, and `latency` is the number of bytes that a collective costs by itself.
    """

    name = "tensor-parallel"
    numerics = Numerics.REASSOCIATING
    across_replicas = True
    changes_signature: ClassVar[bool] = True
    degree: int = 1
    replicas: int = 1
    rows: int = 256
    latency: int = JOIN_BYTES

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name)
        if self.degree > 1:
            price = Price(self.degree, self.replicas, self.rows, self.latency)
            Cutting(module, price, log).run()
        return log.outcomes


@dataclass
class _Effect:
    """The effect of cutting one parameter: the bytes saved, and the collectives that it costs."""

    what: str
    saved: int
    costs: list[tuple[str, int]]

    def __str__(self) -> str:
        kinds = dict.fromkeys(kind for kind, _ in self.costs)
        costs = [
            f"{several(len(each), kind)} of {' and '.join(map(size, dict.fromkeys(each)))}"
            for kind in kinds
            if (each := [payload for k, payload in self.costs if k == kind])
        ]
        found = f"cut by {self.what}: saves {size(self.saved)}"
        return f"{found}, costs {' and '.join(costs) or 'no collective of its own'}"


class Cutting:
    """One run of the pass."""

    def __init__(self, module: ModuleOp, price: Price, log: RewriteLog) -> None:
        self.module = module
        self.price = price
        self.log = log
        self.function = main_function(module)
        self.block = self.function.body.block
        end = self.block.last_op
        assert isinstance(end, ReturnOp)
        self.end = end
        self.signature = signature_of(module)
        self.ports = dict(zip(self.block.args, self.signature.arguments, strict=True))
        self.grads = [op for op in module.walk() if isinstance(op, Grad)]
        self.active: set[SSAValue] = set()
        for op in self.grads:
            self.active |= active_values(op, ops_before(op))
        self.held = self._bytes_held()
        self.anchors = self._anchors()
        self.axes: Mapping[SSAValue, int] = {}
        # the replacements of values that are cut or were sums, and the conversions of values
        self.local: dict[SSAValue, SSAValue] = {}
        self.made: dict[tuple[SSAValue, int | str | None], SSAValue] = {}
        # the parameter because of which a value is cut
        self.source: dict[SSAValue, SSAValue] = {}
        self.effects: dict[SSAValue, _Effect] = {}

    def run(self) -> None:
        """Search, log the results, and rewrite the function."""
        refused = {v: why for v in self.anchors if (why := self._refusal(v)) is not None}
        cuts = self.search(refused).best()
        taken = [v for v in self.anchors if v in cuts.axes]
        vetoed = {v for v in taken if not self.log.allow(self.anchors[v])}
        if vetoed:
            cuts = self.search({*refused, *vetoed}).best()
            taken = [v for v in taken if v in cuts.axes]
        for value, op in self.anchors.items():
            if value not in cuts.axes and value not in vetoed:
                self.log.declined(op, refused.get(value) or self._saves_nothing(value))
        if not taken:
            return
        shown = {value: show_op(self.anchors[value]) for value in taken}
        lines = {value: source_line(self.anchors[value].location) for value in taken}
        self._rewrite(cuts)
        for value in taken:
            note = f"'{self._name(value)}' is {self.effects[value]}"
            applied = Applied(self.log.rule, shown[value], (shown[value],), lines[value], note)
            self.log.outcomes.append(applied)

    # -- choice of cuts ----------------------------------------------------------------------------

    def search(self, refused: Collection[SSAValue]) -> CutSearch:
        """Build the search for parameters to cut, except the `refused` ones."""
        return CutSearch(self.block, self.price, self.held, self.active, refused)

    def _bytes_held(self) -> dict[SSAValue, int]:
        """Map the arguments that may be cut to the bytes held for each.

        For a trained parameter these are its own bytes, its gradient's and its state's.
        """
        written = set(self.signature.writes)
        found: dict[SSAValue, int] = {}
        for argument, port in self.ports.items():
            if port.kind == STATE and port.name not in written:
                found[argument] = byte_count(argument.type)
        for op in self.block.ops:
            for single in op.singles() if isinstance(op, Update) else ():
                assert isinstance(op, Update)
                spread = [op.operands[at] for at in spread_operands(op, single)]
                parameter = op.operands[single.operands["param"]]
                if self._is_state(parameter):
                    found |= {v: 0 for v in spread if self._is_state(v)}
                    found[parameter] = sum(byte_count(value.type) for value in spread)
        return {v: held for v, held in found.items() if UNKNOWN not in shape_of(v.type)}

    def _is_state(self, value: SSAValue) -> bool:
        port = self.ports.get(value) if isinstance(value, BlockArgument) else None
        return port is not None and port.kind == STATE  # a loop's arguments have no ports

    def _anchors(self) -> dict[SSAValue, Operation]:
        """Map the parameters that products read to the first product that reads them."""
        found: dict[SSAValue, Operation] = {}
        for op in self.module.walk():
            if isinstance(op, PRODUCTS):
                for value in op.operands:
                    if self._is_state(value) and rank_of(value.type) > 1:
                        found.setdefault(value, op)
        return found

    def _refusal(self, value: SSAValue) -> Reason | None:
        """Return the reason why a parameter cannot be cut at all, else None."""
        name, shape, degree = self._name(value), list(shape_of(value.type)), self.price.degree
        if UNKNOWN in shape:
            return Reason("size-unknown", f"a size of '{name}' is not known: {shape}")
        if any(isinstance(op, Grad) for grad in self.grads for op in _path(grad)):
            text = (
                "the program differentiates a derivative, and no sum over devices is differentiated"
            )
            return Reason("second-derivative", text)
        users = [use.operation for use in value.uses]
        if any(op.parent is not self.block for op in users):
            return Reason("in-region", f"a branch or a loop needs all of '{name}'")
        for op in users:
            if isinstance(op, (Update, Dpsgd)) and value not in self.held:
                return Reason("updated-whole", f"{show_op(op)} updates all of '{name}' at once")
            if isinstance(op, (Update, Dpsgd)) and not cut_forms(op, degree):
                if all(size % degree for size in shape):
                    break
                text = f"{show_op(op)} needs the norm of all of '{name}'"
                return Reason("norm-of-whole", text, "use another optimizer, such as Adam")
        if value not in self.held:
            return Reason(
                "updated-whole", f"an op that is no update by an optimizer writes '{name}'"
            )
        if all(size % degree for size in shape[-2:]):
            text = f"none of the last two sizes of '{name}', {shape}, is a multiple of {degree}"
            return Reason(
                "not-divisible", text, f"make one of the two sizes a multiple of {degree}"
            )
        return None

    def _saves_nothing(self, value: SSAValue) -> Reason:
        """Build the reason for a parameter that the search left whole."""
        held, op = self.held[value], self.anchors[value]
        saved = size(round(held * (1 - 1 / self.price.degree)))
        sent = size(round(self.price.all_reduce(op.results[0])))
        text = (
            f"cutting '{self._name(value)}' would save {saved} and cost around {sent} more, "
            f"for a sum of {size(self.price.bytes_of(op.results[0].type))}"
        )
        return Reason("saves-nothing", text, "none: devices would send more than the cut saves")

    def _name(self, value: SSAValue) -> str:
        port = self.ports.get(value)  # pyright: ignore[reportArgumentType]
        return port.name if port is not None else "?"

    # -- rewriting ---------------------------------------------------------------------------------

    def _rewrite(self, cuts: Cuts) -> None:
        self.axes = cuts.axes
        with edit_signature(self.function) as edit:
            for argument, port in self.ports.items():
                if argument in cuts.axes:
                    self._cut(argument, port, edit)
            dead: list[Operation] = []
            for op in list(self.block.ops):
                if op is self.end:
                    self._finish(edit)
                elif op in cuts.forms:
                    assert isinstance(op, PdOp)
                    self._compute(op, cuts.forms[op])
                    dead.append(op)
                elif isinstance(op, Grad):
                    self._differentiate(op)
                    dead.append(op)
                else:
                    self._read_whole(op)
            for op in reversed(dead):
                op.detach()
                op.erase()

    def _cut(self, argument: BlockArgument, port: Port, edit: SignatureEdit) -> None:
        """Replace an argument by this device's piece."""
        axis, whole = self.axes[argument], argument.type
        self.local[argument] = edit.replace(argument, piece_type(whole, axis, self.price.degree))
        edit.mark({port.name: {SHARD_OF: whole, CUT: IntegerAttr(axis, i64)}})
        if argument in self.anchors:
            last = axis == rank_of(whole) - 1
            saved = round(self.held[argument] * (1 - 1 / self.price.degree))
            self.effects[argument] = _Effect("columns" if last else "rows", saved, [])
            self.source[argument] = argument

    def _value(self, value: SSAValue, axis: int | None, op: Operation) -> SSAValue:
        """Return a value cut along `axis`, or whole; insert its conversion before `op`."""
        now, found = self.axes.get(value), self.local.get(value, value)
        if now == axis:
            return found
        if (value, axis) not in self.made:
            made: PdOp
            if axis is None:
                made = CConcat.make(found, axis=now, degree=self.price.degree)
                self._charge(value, "gather", value)
            else:
                made = CSplit.make(
                    self._value(value, None, op), axis=axis, degree=self.price.degree
                )
            self.made[value, axis] = insert(made, op, value)
        return self.made[value, axis]

    def _share(self, value: SSAValue, op: Operation) -> SSAValue:
        """Return a whole value for an op that computes with pieces: its gradient is summed."""
        found = self._value(value, None, op)
        if value not in self.active:
            return found
        if (value, "shared") not in self.made:
            self.made[value, "shared"] = insert(CIdentity.make(found), op, value)
            self._charge(self._source_of(op), "all-reduce", value)
        return self.made[value, "shared"]

    def _source_of(self, op: Operation) -> SSAValue | None:
        """Find the parameter for which an op computes with pieces, by its operands."""
        own = [v for v in op.operands if v in self.effects]
        return next(iter(own + [self.source[v] for v in op.operands if v in self.source]), None)

    def _charge(self, value: SSAValue | None, kind: str, payload: SSAValue) -> None:
        """Note a collective for the parameter for which a value is cut."""
        source = None if value is None else self.source.get(value)
        if source is not None:
            self.effects[source].costs.append((kind, self.price.bytes_of(payload.type)))

    def _compute(self, op: PdOp, form: CutForm) -> None:
        """Rebuild the op on pieces, in its form."""
        new = [
            self._value(value, axis, op) if axis is not None else self._share(value, op)
            for value, axis in zip(op.operands, form.operands, strict=True)
        ]
        groups = [[new.pop(0) for _ in group] for group in op.operand_groups()]
        kind, attrs = form.call_of(op)
        made = kind.make(*groups, location=op.location, **attrs)
        made.attributes |= op.attributes
        assert op.parent is not None
        op.parent.insert_op_before(made, op)
        source = self._source_of(op)
        for old, result in zip(op.results, made.results, strict=True):
            result.name_hint = old.name_hint
            self.local[old] = result
            if form.partial:
                self.local[old] = insert(MpAllReduceSum.make(result, location=op.location), op, old)
                self._charge(source, "all-reduce", old)
            elif source is not None:
                self.source[old] = source

    def _differentiate(self, op: Grad) -> None:
        """Differentiate with respect to pieces, where values are cut."""
        of, wrt, cotangents, no_grad = op.operand_groups()
        wholes = [[self._value(v, None, op) for v in group] for group in (of, cotangents)]
        pieces = [[self.local.get(v, v) for v in group] for group in (wrt, no_grad)]
        made = Grad.make(
            wholes[0], pieces[0], wholes[1], pieces[1], location=op.location, **op.attr_values()
        )
        assert op.parent is not None
        op.parent.insert_op_before(made, op)
        for old, new in zip(op.results, made.results, strict=True):
            new.name_hint = old.name_hint
            self.local[old] = new

    def _read_whole(self, op: Operation) -> None:
        """Let an op and its regions read whole values."""
        for inner in op.walk():
            for index, value in enumerate(inner.operands):
                new = self._value(value, None, op)
                if new is not value:
                    inner.operands[index] = new

    def _finish(self, edit: SignatureEdit) -> None:
        """Return whole values, and new pieces of the state that is cut."""
        axes = {self.ports[v].name: axis for v, axis in self.axes.items() if v in self.ports}  # pyright: ignore
        for at, port in enumerate(self.signature.results):
            axis = axes.get(port.name) if port.kind == STATE else None
            edit.set_result(at, self._value(self.end.operands[at], axis, self.end))


def _path(grad: Grad) -> list[PdOp]:
    region = ops_before(grad)
    return path_of(grad, region, active_values(grad, region))


def cut_notes(module: ModuleOp) -> Iterator[str]:
    """Report the bytes of state that a device has, where parameters are cut."""
    ports = [port for port in signature_of(module).arguments if port.cut is not None]
    if ports:
        own = sum(byte_count(port.type) for port in ports)
        whole = sum(byte_count(port.shard_of) for port in ports if port.shard_of is not None)
        count = len(ports)
        yield f"tensor_parallel_degree: {own} bytes of {count} states on each device, not {whole}"
