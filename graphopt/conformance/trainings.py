"""Cases of more than one call: optimizers, schedules, host functions, whole programs."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphopt as paddle
from graphopt.conformance.cases import Case, Corpus, Decoder, find_by_path
from graphopt.conformance.compare import TOLERANCE, Finding, differs, differs_plainly, leaves

_STEPS = 5


def optimizer_complaints(corpus: Corpus, case: Case) -> Finding:
    """Compare with the record after each of five steps of y ~ tanh(x w1 + b1) w2."""
    decoder, static = Decoder(corpus, case), paddle.static
    history: dict[str, list[Any]] = {name: [] for name in case["history"]}
    main, startup = static.Program(), static.Program()
    with static.scope_guard(static.Scope()), static.program_guard(main, startup):
        x = static.data("x", [None, 4], case["dtype"])
        y = static.data("y", [None, 2], case["dtype"])
        weights = {name: _weight(decoder, name) for name in ("w1", "b1", "w2")}
        hidden = paddle.tanh(paddle.matmul(x, weights["w1"]) + weights["b1"])
        error = paddle.matmul(hidden, weights["w2"]) - y
        loss = paddle.mean(paddle.square(error)) * case.get("loss_scale", 1.0)
        optimizer = decoder.decode(case["optimizer"])
        optimizer.minimize(loss)
        executor = static.Executor()
        executor.run(startup)
        for step in range(_STEPS):
            feed = {name: decoder.array(case[name])[step] for name in ("x", "y")}
            history["loss"].append(executor.run(main, feed=feed, fetch_list=[loss])[0])
            for name in weights:
                tensor: Any = static.global_scope().find_var(name)
                history[name].append(np.array(tensor.get_tensor()))
            if isinstance(optimizer._learning_rate, paddle.optimizer.lr.LRScheduler):
                optimizer._learning_rate.step()
    found: list[str] = []
    for name, values in history.items():
        want = decoder.array(case["history"][name])
        have = np.reshape(np.stack(values), want.shape)
        found += differs(name, want, have, case.get("tol", TOLERANCE))
    return Finding(found)


def _weight(decoder: Decoder, name: str) -> Any:
    case = decoder.case
    value = decoder.array(case["state"][name])
    options = {k: decoder.decode(v) for k, v in case.get("attr", {}).get(name, {}).items()}
    attr = paddle.ParamAttr(name, paddle.nn.initializer.Assign(value), **options)
    return paddle.static.create_parameter(list(value.shape), case["dtype"], attr=attr)


def schedule_complaints(corpus: Corpus, case: Case) -> Finding:
    """Compare the first rates of a schedule with the record."""
    decoder = Decoder(corpus, case)
    schedule = decoder.decode(case["scheduler"])
    rates: list[float] = []
    for step in range(case["steps"]):
        rates.append(schedule())
        schedule.step(*([case["metrics"][step]] if case.get("metrics") else []))
    want = decoder.array(case["values"])
    return Finding(differs("rates", want, np.array(rates), case.get("tol", TOLERANCE)))


def eager_complaints(corpus: Corpus, case: Case) -> Finding:
    """Compare the result of a host function, which Paddle runs in dynamic mode."""
    decoder = Decoder(corpus, case)
    paddle.disable_static()
    try:
        kwargs = {name: decoder.decode(value) for name, value in case["kwargs"].items()}
        got = find_by_path(case["op"])(*decoder.decode(case["args"]), **kwargs)
        if "apply" in case:
            got = got(*decoder.decode(case["apply"]))
    finally:
        paddle.enable_static()
    found: list[str] = []
    for (path, value), item in zip(leaves(got), case["out"], strict=True):
        what = f"result {path}".rstrip()
        if "py" in item:
            found += differs_plainly(what, item["py"], value)
        else:
            want = decoder.array(item["a"])
            found += differs(what, want, np.asarray(value), case.get("tol", TOLERANCE))
    return Finding(found)


def program_complaints(corpus: Corpus, case: Case) -> Finding:
    """Compare the results of a function of the folder's `programs.py`."""
    decoder = Decoder(corpus, case)
    feeds = {name: decoder.array(reference) for name, reference in case.get("feeds", {}).items()}
    got = corpus.program(case["fn"])(paddle, feeds, **case.get("params", {}))
    found: list[str] = []
    for name, want in case["results"].items():
        if isinstance(want, dict):
            found += differs_plainly(name, want["py"], got[name])
        else:
            found += differs(name, decoder.array(want), got[name], case.get("tol", TOLERANCE))
    return Finding(found)
