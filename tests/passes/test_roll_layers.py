"""Random rows of layers compute the same when rolled up with their state in stacks."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from graphopt.debug.compare import assert_same_results, interpret_module
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.signature import signature_of
from graphopt.ir.dialect.text import text_of
from graphopt.passes.engine.fusion import Applied
from graphopt.passes.storage.roll_layers import RollLayers
from graphopt.passes.storage.stack_state import StackState
from graphopt_tests.example_counts import examples

X, W, B, S, R = (
    "tensor<?x3xf32>",
    "tensor<3x3xf32>",
    "tensor<3xf32>",
    "tensor<f32>",
    "tensor<1xf32>",
)
STEPS = ("matmul", "bias", "tanh", "relu", "scale", "past", "dropout")
EXAMPLES = examples(90)
MUST_ROLL = EXAMPLES // 2


class Model:
    """The text of a model of `count` layers of these steps; `train` adds updates by sgd."""

    def __init__(self, steps: list[str], count: int, *, train: bool, fetched: bool) -> None:
        self.steps = steps
        self.lines: list[str] = []
        self.state: dict[str, str] = {}
        self.drawn = 0
        value, hidden = "x", ["x"]
        for layer in range(count):
            start = value
            for at, step in enumerate(steps):
                value = self.step(step, f"{layer}_{at}", value, start)
            hidden.append(value)
        results = [(value, X, "pd.fetch", value)]
        results += [(hidden[2], X, "pd.fetch", hidden[2])] if fetched else []
        if train and self.state:
            results += self.train(value)
        arguments = [f'%x: {X} {{pd.feed = "x"}}', f'%rate: {R} {{pd.state = "rate"}}']
        arguments += [f'%{n}: {t} {{pd.state = "{n}"}}' for n, t in self.state.items()]
        gives = ", ".join(f'{t} {{{kind} = "{name}"}}' for _, t, kind, name in results)
        self.lines.append(
            f"func.return {', '.join('%' + v for v, *_ in results)} : "
            f"{', '.join(t for _, t, *_ in results)}"
        )
        body = "\n".join(self.lines)
        head = f"func.func @main({', '.join(arguments)}) -> ({gives})"
        self.text = f"builtin.module {{\n{head} {{\n{body}\n}}\n}}"

    def step(self, step: str, where: str, value: str, start: str) -> str:
        """Add one op, and return the name of its result."""
        made = f"h{where}"
        attrs = ""
        if step in ("matmul", "bias"):
            name, op, type_ = (
                (f"w{where}", "matmul", W) if step == "matmul" else (f"b{where}", "add", B)
            )
            self.state[name] = type_
            self.lines.append(f"%{made} = pd.{op}(%{value}, %{name}) : ({X}, {type_}) -> {X}")
            return made
        if step == "past":
            self.lines.append(f"%{made} = pd.add(%{value}, %{start}) : ({X}, {X}) -> {X}")
            return made
        if step == "dropout":
            attrs = f" {{rng_id = {self.drawn}}}" if self.drawn else ""
            self.drawn += 1
        if step == "scale":
            attrs = " {scale = 0.5}"
        self.lines.append(f"%{made} = pd.{step}(%{value}){attrs} : {X}")
        return made

    def train(self, value: str) -> list[tuple[str, str, str, str]]:
        """Add a clipped derivative and an update of each parameter; return the results."""
        names, types = list(self.state), list(self.state.values())
        self.lines += [
            f"%loss = pd.mean(%{value}) : ({X}) -> {S}",
            f"%seed = pd.full() {{shape = [], value = 1.0}} : () -> {S}",
            f"{', '.join('%g' + n for n in names)} = pd.grad(of = [%loss], "
            f"wrt = [{', '.join('%' + n for n in names)}], cotangents = [%seed]) "
            f"{{parameters = {list(range(len(names)))}}} : "
            f"({', '.join([S, *types, S])}) -> ({', '.join(types)})",
        ]
        for name, type_ in self.state.items():
            self.lines += [
                f"%c{name} = pd.multiply(%g{name}, %rate) : ({type_}, {R}) -> {type_}",
                f"%n{name} = pd.sgd(%{name}, %c{name}, %rate) : ({type_}, {type_}, {R}) -> {type_}",
            ]
        return [(f"n{name}", type_, "pd.state", name) for name, type_ in self.state.items()]


def rewritten(module: ModuleOp) -> tuple[ModuleOp, bool]:
    """Roll up the layers of a copy; return it, and whether the pass fired."""
    after = module.clone()
    outcomes = RollLayers(fewest=3, fewest_ops=3).rewrite(after)
    StackState(fewest=2).rewrite(after)
    after.verify()
    return after, any(isinstance(outcome, Applied) for outcome in outcomes)


@pytest.mark.exhaustive
def test_random_layers_compute_the_same() -> None:
    """Outputs, parameters and the signature's variables agree in the reference interpreter."""
    rolled = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.explicit),
    )
    @given(
        st.lists(st.sampled_from(STEPS), min_size=1, max_size=5),
        st.integers(3, 6),
        st.booleans(),
        st.booleans(),
    )
    def check(steps: list[str], count: int, train: bool, fetched: bool) -> None:
        nonlocal rolled
        before = parse_text(Model(["matmul", *steps], count, train=train, fetched=fetched).text)
        after, fired = rewritten(before)
        rolled += fired
        variables = [
            sorted(n for p in s.arguments for n in p.variables)
            for s in map(signature_of, (before, after))
        ]
        assert variables[0] == variables[1]
        assert text_of(parse_text(text_of(after))) == text_of(after)
        assert_same_results(before, after, run=interpret_module)

    check()
    assert rolled >= MUST_ROLL, rolled
