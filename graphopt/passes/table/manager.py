"""The pass manager: runs the steps of the schedule on a module and remembers what happened."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import DeadCodeElimination, dce

from graphopt.ir.dialect.collector import paused_collector
from graphopt.ir.dialect.context import new_context
from graphopt.ir.dialect.data_sized import DataSized, data_sized, deciding_feeds
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import FusionGroup, Yield
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.signature import kept_gradients, prepare_function
from graphopt.ir.dialect.text import text_of
from graphopt.passes.engine import bisect, validation
from graphopt.passes.engine.blocks import BlockLog
from graphopt.passes.engine.checks import ModuleChecks
from graphopt.passes.engine.communication import Ring, communication
from graphopt.passes.engine.compared import Compared
from graphopt.passes.engine.costs import Cost, cost_of, cost_of_module
from graphopt.passes.engine.crash import ON_PURPOSE, Crash, PassStep
from graphopt.passes.engine.fusion import Applied, Fusion, FusionPass, Outcome, Watcher, sweep
from graphopt.passes.engine.naming import source_line
from graphopt.passes.engine.near_misses import NearMisses
from graphopt.passes.engine.pattern import Reason
from graphopt.passes.engine.rewrite import RewritePass
from graphopt.passes.parallel.shard_parameters import memory_notes
from graphopt.passes.parallel.shard_updates import sharding_notes
from graphopt.passes.parallel.tensor_parallel import cut_notes
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.instrumentation import Instrumentation
from graphopt.passes.table.parts import EXPLAIN, CompilationPart
from graphopt.passes.table.report import ByOp, Ran, Report, Traffic
from graphopt.passes.table.schedule import LAST, ORIGINAL, steps

# a pass and its flag
Asked = tuple[str, ModulePass]


class _Savings:
    """The ops and costs that the fusions of a sweep remove, by pass."""

    def __init__(self) -> None:
        self.ops: Counter[str] = Counter()
        self.costs: dict[str, Cost] = {}

    def took(self, rule: str, ops: Sequence[PdOp], made: Sequence[PdOp]) -> None:
        """Add the savings of a fusion; called by the sweep."""
        self.ops[rule] += len(ops) - len(made)
        self.costs[rule] = self.costs.get(rule, Cost()) + cost_of(ops) - cost_of(made)

    def note_refusal(self, rule: str, op: PdOp, reason: Reason) -> None:
        """Ignore a refusal, which saves nothing; called by the sweep."""


class PassRun:
    """One run of passes on a module. With `near` the report has near misses, costs and blocks.

    These take longer than the passes.

    `again` rebuilds the initial module, for the file that replays a crash. `watch` observes each
    step.
    """

    def __init__(
        self,
        module: ModuleOp,
        context: PassContext,
        *,
        near: bool = False,
        verify_each: bool | None = None,
        again: Callable[[], ModuleOp] | None = None,
        watch: Instrumentation | None = None,
    ) -> None:
        limit = bisect.current()
        self.limit = limit.left if limit is not None else -1
        self.again = again
        self.watch = watch or Instrumentation()
        self.steps: list[PassStep] = []
        self.module = module
        self.near = near
        self.checks = ModuleChecks(module, verify_each=verify_each)
        self.report = Report(context, before=_ops(module), kept_gradients=kept_gradients(module))
        self.count = self.report.ops_before
        self.sweeps = 0
        self.blocks: BlockLog | None = None
        # the fusions of later steps, and the near misses of earlier steps
        self.ahead: list[tuple[str, Fusion]] = []
        self.earlier: NearMisses | None = None
        self.cost = Cost()
        self.explained = 0.0
        if near:
            with self._explaining():
                self.cost = self.report.cost_before = cost_of_module(module)
            self.report.detailed = True

    @contextmanager
    def _explaining(self) -> Generator[None]:
        """Time the work that only the report needs."""
        start = time.perf_counter()
        yield
        self.explained += time.perf_counter() - start

    def do(self, step: PassStep) -> None:
        """Run one step of a schedule."""
        asked = tuple(zip(step.flags or [""] * len(step.passes), step.passes, strict=True))
        if step.together:
            self.fuse(asked)
            return
        for flag, made in asked:
            if isinstance(made, DeadCodeElimination) and not flag:
                self.clean()
            else:
                self.one(flag, made, step.ctx)

    def fuse(self, asked: Sequence[Asked]) -> None:
        """Run all fusions in one sweep."""
        with self._guard_step(PassStep(tuple(made for _, made in asked), together=True)):
            self._fuse(asked)

    def _fuse(self, asked: Sequence[Asked]) -> None:
        fusions = [made for _, made in asked if isinstance(made, FusionPass)]
        rules = [(made.name, rule) for made in fusions for rule in made.RULES]
        savings, near = _Savings(), None
        watchers: tuple[Watcher, ...] = (self.watch,)
        if self.near:
            with self._explaining():
                near = NearMisses(self.module, rules, self.ahead, self.earlier)
                self.blocks = self.blocks or BlockLog(self.module)
            watchers = (near, savings, self.blocks, self.watch)
        before, start = self.count, time.perf_counter()
        own: dict[str, float] = {}
        outcomes: list[Outcome] = []

        def apply(module: ModuleOp) -> None:
            classes = {made.name: made.numerics for made in fusions}
            outcomes[:] = sweep(module, rules, watchers, classes, own)

        compared = Compared.of(self.module)
        self.checks.run(", ".join(made.name for made in fusions), apply)
        if compared is not None:
            outcomes[:] = compared.judge(fusions, outcomes)
        fired = Counter(o.rule for o in outcomes if isinstance(o, Applied))
        if savings.ops and not fired:  # the sweep failed validation and was undone
            self.blocks = BlockLog(self.module)
        # time outside of the passes, such as for the walk and the checks, is divided evenly
        shared = (time.perf_counter() - start - sum(own.values())) / max(len(fusions), 1)
        after = self._note(outcomes)
        if near is not None:
            with self._explaining():
                self.report.near += near.left()
                self.cost = cost_of_module(self.module)
            self.earlier = near
        self.sweeps += 1
        self.report.ran += [
            Ran(
                *(flag, made.name, own.get(made.name, 0.0) + shared),
                ops_before=before,
                ops_after=after,
                numerics=made.numerics,
                sweep=self.sweeps,
                removed=savings.ops[made.name] if fired[made.name] else 0,
                saved=savings.costs.get(made.name, Cost()) if fired[made.name] else None,
            )
            for flag, made in asked
            if isinstance(made, FusionPass)
        ]

    def one(self, flag: str, made: ModulePass, ctx: Context | None = None) -> None:
        """Run one pass, a fusion or any other."""
        if isinstance(made, FusionPass):
            self.fuse([(flag, made)])
            return
        with self._guard_step(PassStep((made,), ctx)):
            if isinstance(made, RewritePass):
                self._rewrite(flag, made)
            else:
                self._opaque(flag, made, ctx or Context())

    def clean(self) -> None:
        """Remove ops without readers."""
        with self._guard_step(PassStep((DeadCodeElimination(),))):
            compared = Compared.of(self.module)
            dce(self.module)
            if compared is not None:
                self.report.outcomes += compared.judge([DeadCodeElimination()], [])
        self.count = _ops(self.module).total()
        if self.near:
            with self._explaining():
                self.cost = cost_of_module(self.module)

    @contextmanager
    def _guard_step(self, step: PassStep) -> Generator[None]:
        """Record a step; raise PassError for a crash in it, with the file that replays it."""
        self.steps.append(step)
        names = [made.name for made in step.passes]
        self.watch.before(names, self.module)
        try:
            yield
        except ON_PURPOSE:
            self.watch.note_failure(names, self.module)
            raise
        except Exception as error:
            self.watch.note_failure(names, self.module)
            each = self.checks.each
            crash = Crash(tuple(self.steps), error, self.again, _again(each), each, self.limit)
            if not crash.is_own():
                raise
            raise crash.report() from error
        self._count_collectives(names)
        self.watch.after(names, self.module)

    def _count_collectives(self, names: Sequence[str]) -> None:
        """Record the collectives after these passes, where they have changed."""
        context, traffic = self.report.context, self.report.traffic
        if not self.near or not (context.communicates or context.model > 1):
            return
        now = communication(self.module, Ring(context.replicas, context.trainers, context.model))
        if now != (traffic[-1].collectives if traffic else ()):
            traffic.append(Traffic(", ".join(names), now))

    def _rewrite(self, flag: str, made: RewritePass) -> None:
        before, start = self.count, time.perf_counter()
        compared = Compared.of(self.module)
        outcomes = made.rewrite(self.module)
        self.checks.after(made.name, changes_signature=made.changes_signature)
        if compared is not None:
            outcomes = compared.judge([made], outcomes)
        seconds = time.perf_counter() - start
        after = self._note(outcomes)
        ran = Ran(flag, made.name, seconds, "", 0, before, after, made.numerics)
        changed = any(isinstance(outcome, Applied) for outcome in outcomes)
        self.report.ran.append(self._record_pass(ran, changed=changed))

    def _record_pass(self, ran: Ran, *, changed: bool) -> Ran:
        """Complete the record of a pass that ran alone, with the cost that it removed."""
        self.sweeps += 1
        before = self.cost
        if self.near and changed:
            with self._explaining():
                self.cost = cost_of_module(self.module)
        saved = before - self.cost if self.near else None
        removed = ran.ops_before - ran.ops_after
        return replace(ran, sweep=self.sweeps, removed=removed, saved=saved)

    def _note(self, outcomes: Sequence[Outcome]) -> int:
        """Record the outcomes of a pass, and return the current number of ops."""
        self.report.outcomes += outcomes
        if any(isinstance(outcome, Applied) for outcome in outcomes):
            self.count = _ops(self.module).total()
        return self.count

    def _opaque(self, flag: str, made: ModulePass, ctx: Context) -> None:
        """Run a pass that does not report its rewrites: one rewrite for a bisection.

        Dead code elimination counts as none, so that a bisection counts the same rewrites with the
        clean-ups of the schedule and without.
        """
        is_rewrite = not isinstance(made, DeadCodeElimination)
        if is_rewrite and not bisect.take(made.name, "the program"):
            return
        count, before, ports = self.count, _forms(self.module), _ports(self.module)
        start = time.perf_counter()
        compared = Compared.of(self.module)
        made.apply(ctx, self.module)
        self.checks.after(made.name, changes_signature=getattr(made, "changes_signature", False))
        if compared is not None:
            self.report.outcomes += compared.judge([made], [])
        seconds = time.perf_counter() - start
        after = _forms(self.module)
        old, new = _by_name(before), _by_name(after)
        self.count = _ops(self.module).total()
        marked = [(now - was).total() for was, now in zip(ports, _ports(self.module), strict=True)]
        changed = max((after - before).total(), (before - after).total(), *marked)
        ran = Ran(
            flag,
            made.name,
            seconds,
            _difference(old, new),
            changed,
            count,
            self.count,
            getattr(made, "numerics", None),
        )
        self.report.ran.append(self._record_pass(ran, changed=changed > 0))

    def finish(self) -> Report:
        """Complete the report with the facts that are known only at the end, and return it."""
        self.report.validation = validation.current()
        self.report.after = _ops(self.module)
        prepare = prepare_function(self.module)
        self.report.prepared = 0 if prepare is None else sum(1 for _ in _count_ops(prepare))
        groups = [op for op in _count_ops(self.module) if isinstance(op, FusionGroup)]
        self.report.in_groups = sum(1 for group in groups for _ in _count_ops(group))
        self.report.by_op = tuple(map(_by_op, data_sized(self.module)))
        self.report.deciding = deciding_feeds(self.module)
        self.report.notes = (
            *sharding_notes(self.module),
            *memory_notes(self.module),
            *cut_notes(self.module),
        )
        if self.near:
            with self._explaining():
                self.report.cost_after = cost_of_module(self.module)
            self.report.blocks = self.blocks.blocks if self.blocks is not None else []
            told = "near misses, costs and blocks"
            self.report.parts.append(CompilationPart(EXPLAIN, self.explained, told))
        return self.report


def _by_op(found: DataSized) -> ByOp:
    name = found.op.attr("op") if isinstance(found.op, Dynamic) else found.op.name
    variable = found.value.name_hint or ""
    return ByOp(name, found.what, variable, source_line(found.op.location), found.fix)


@paused_collector()
def optimize(
    module: ModuleOp,
    context: PassContext,
    *,
    near: bool = False,
    verify_each: bool | None = None,
    again: Callable[[], ModuleOp] | None = None,
    validate: validation.Validator | None = None,
    watch: Instrumentation | None = None,
) -> Report:
    """Run the passes that `context` selects on the module, in place.

    `near` adds near misses to the report. `validate` compares the old and new values of every
    rewrite, and undoes the rewrite when they differ. `watch` observes each step.

    Raise PassError, naming the pass, when one fails or leaves the module invalid; if `again` can
    build the module again, a file that replays this is written (see `crash.py`). Raise OSError when
    `debug_graphviz_path` cannot be written.
    """
    if validate is not None:
        with validation.validating(validate):
            return optimize(
                module, context, near=near, verify_each=verify_each, again=again, watch=watch
            )
    run = PassRun(module, context, near=near, verify_each=verify_each, again=again, watch=watch)
    path = str(context.flags.get("debug_graphviz_path", ""))
    _dump(module, path, ORIGINAL)
    chosen = steps(context)
    for number, step in enumerate(chosen):
        run.ahead = _fusions(chosen[number + 1 :]) if near else []
        run.do(step)
        if step.dump:
            _dump(module, path, step.dump)
    _dump(module, path, LAST)
    return run.finish()


def _fusions(steps: Sequence[PassStep]) -> list[tuple[str, Fusion]]:
    """List the rules of all sweeps of these steps."""
    return [
        (made.name, rule)
        for step in steps
        for made in step.passes
        if isinstance(made, FusionPass) and step.together
        for rule in made.RULES
    ]


def apply_steps(module: ModuleOp, steps: Sequence[PassStep], *, verify_each: bool | None) -> None:
    """Run steps on a module again; a failure leaves no file."""
    run, context = PassRun(module, PassContext({}), verify_each=verify_each), new_context()
    for step in steps:
        run.do(replace(step, ctx=step.ctx or context))


def _again(verify_each: bool) -> Callable[[ModuleOp, Sequence[PassStep]], None]:
    return lambda module, steps: apply_steps(module, steps, verify_each=verify_each)


def _difference(before: Counter[str], after: Counter[str]) -> str:
    """Format the number of added and removed ops of each kind."""
    changes = [f"+{n} {name}" for name, n in sorted((after - before).items())]
    changes += [f"-{n} {name}" for name, n in sorted((before - after).items())]
    return ", ".join(changes) or "no op added or removed"


def _ops(module: ModuleOp) -> Counter[str]:
    """Count the ops of a step by name; a group is one op, and ops of `@prepare` do not count."""
    prepare = prepare_function(module)
    return Counter(op.name for each in module.ops if each is not prepare for op in _count_ops(each))


def _count_ops(op: Operation) -> Iterator[Operation]:
    """Yield the dialect's ops in an op at any depth, without terminators and ops in groups."""
    for region in op.regions:
        for inner in region.block.ops:
            if inner.name.startswith("pd.") and not isinstance(inner, Yield):
                yield inner
            if not isinstance(inner, FusionGroup):
                yield from _count_ops(inner)


def _forms(module: ModuleOp) -> Counter[tuple[str, int]]:
    """Count the ops by name and properties, so that a changed property counts as a change."""
    return Counter(
        (op.name, hash(frozenset(op.properties.items())))
        for op in module.walk()
        if op.name.startswith("pd.")
    )


def _ports(module: ModuleOp) -> tuple[Counter[Attribute], Counter[Attribute]]:
    """Count the names and marks of arguments and results, so that a mark counts as a change."""
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    arguments = (each for f in functions for each in f.arg_attrs or ())
    results = (each for f in functions for each in f.res_attrs or ())
    return Counter(arguments), Counter(results)


def _by_name(forms: Counter[tuple[str, int]]) -> Counter[str]:
    names: Counter[str] = Counter()
    for (name, _), count in forms.items():
        names[name] += count
    return names


def _dump(module: ModuleOp, path: str, suffix: str) -> None:
    """Write the graph under Paddle's name for this stage, as drawings and as IR."""
    if not path:
        return
    folder = Path(path + suffix).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"BuildStrategy.debug_graphviz_path = {path!r}: there is no folder {folder}; make it "
            "before the program runs"
        )
    from graphopt.ir.dialect.dot import to_dot
    from graphopt.ir.dialect.svg import to_svg

    Path(f"{path}{suffix}.dot").write_text(to_dot(module), "utf-8")
    Path(f"{path}{suffix}.svg").write_text(to_svg(module), "utf-8")
    Path(path + suffix + ".mlir").write_text(text_of(module) + "\n", "utf-8")
