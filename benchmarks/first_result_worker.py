"""One process of first_result.py: the times of the first result and of the following ones.

It runs under Paddle, and under `graphopt run`, where `import paddle` is graphopt. Its last line is
JSON: seconds by the clock and of the CPU, since the process was started.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

BEGAN = float(os.environ["FIRST_RESULT_BEGAN"])
NOTE = "_note"  # a private method of `XlaForms`, the only source of a compilation's parts
# the repeated runs of a known size
AGAIN = 5
WORDS = "今天天气很好我们一起去公园散步然后回家吃饭北京上海学生老师工作学习中国世界喜欢音乐电影"


def pictures(count: int) -> Iterator[Any]:
    """Draw images of random sizes with a few lines of text."""
    import cv2

    generator = np.random.default_rng(0)
    for number in range(count):
        height, width = (int(n) for n in generator.integers(160, 480, 2))
        picture = np.full((height, width, 3), 255, np.uint8)
        for line in range(1 + number % 3):
            text = "".join(generator.choice(list("abcdefghij 0123456789"), 4 + 3 * (number % 4)))
            at = 10, 40 + 45 * line
            cv2.putText(picture, text, at, cv2.FONT_HERSHEY_SIMPLEX, 1.0, (0, 0, 0), 2)
        yield picture


def of_pictures(count: int) -> tuple[list[Any], Callable[[Any], Any]]:
    """Prepare rapidocr-paddle on images."""
    from rapidocr_paddle import RapidOCR

    reader: list[Any] = []

    def run(picture: Any) -> Any:
        if not reader:
            reader.append(RapidOCR())
        found, _ = reader[0](picture)
        return [(text, float(score)) for _, text, score in found or ()]

    return list(pictures(count)), run


def of_sentences(count: int) -> tuple[list[Any], Callable[[Any], Any]]:
    """Prepare jieba's tagger on sentences of random lengths."""
    import jieba
    import paddle

    generator = np.random.default_rng(0)
    sentences = ["".join(generator.choice(list(WORDS), 4 + 2 * (n % 17))) for n in range(count)]
    ready: list[bool] = []

    def run(sentence: str) -> Any:
        if not ready:
            if hasattr(paddle, "enable_static"):
                paddle.enable_static()
            jieba.enable_paddle()
            ready.append(True)
        return list(jieba.cut(sentence, use_paddle=True))

    return sentences, run


def of_model(files: list[str], shapes: list[dict[str, Any]]) -> Any:
    """Build a predictor, and arrays of these shapes."""
    from paddle import inference

    generator = np.random.default_rng(0)
    inputs = [
        {
            name: (
                generator.integers(0, 2, shape).astype(dtype)
                if "int" in dtype or dtype == "bool"
                else generator.standard_normal(shape).astype(dtype)
            )
            for name, (dtype, shape) in each.items()
        }
        for each in shapes
    ]
    made: list[Any] = []

    def run(feed: dict[str, Any]) -> Any:
        if not made:
            config = inference.Config(*files)
            config.disable_gpu()
            made.append(inference.create_predictor(config))
        predictor = made[0]
        for name, array in feed.items():
            handle = predictor.get_input_handle(name)
            handle.reshape(array.shape)
            handle.copy_from_cpu(array)
        predictor.run()
        names = predictor.get_output_names()
        return [predictor.get_output_handle(name).copy_to_cpu() for name in names]

    return inputs, run


def of_training(network: str, seed: int | None, steps: int) -> tuple[list[Any], Any]:
    """Prepare steps of a network of `first_trainings.py`."""
    from first_trainings import begin

    made: list[Any] = []

    def run(_: int) -> Any:
        if not made:
            made.extend((begin(network, seed), np.random.default_rng(0)))
        take_step, chance = made
        return [float(np.asarray(take_step(chance)).reshape(-1)[0]).hex()]

    return list(range(steps)), run


def of_script(path: str, *, seeded: bool) -> dict[str, Any]:
    """Run a script, and record the times to its first loss; it sets a seed only if `seeded`."""
    import paddle
    from paddle import static

    run, times = static.Executor.run, list[list[float]]()

    def noted(self: Any, *given: Any, **named: Any) -> Any:
        found = run(self, *given, **named)
        if named.get("fetch_list"):
            times.append([time.time() - BEGAN, time.process_time()])
        return found

    static.Executor.run = noted
    if not seeded:
        paddle.seed = lambda _: None
    runpy.run_path(path, run_name="__main__")
    return {"first": times[0], "new": [], "known": [], "results": []}


def of_timeline(work: dict[str, Any], *, full: bool) -> dict[str, float]:
    """Measure CPU seconds of each stage to the first loss, with graphopt, and the process's memory.

    `work` has the form of a training or a script. With `full` the full form is compiled afterwards,
    too.
    """
    time.perf_counter = time.process_time  # the clock that measures the stages of a compilation
    seconds: dict[str, float] = {}

    def spend(stage: str, spent: float) -> None:
        seconds[stage] = seconds.get(stage, 0.0) + spent

    def timed(owner: Any, name: str, stage: str) -> None:
        function = getattr(owner, name)

        def run(*given: Any, **named: Any) -> Any:
            began, before = time.process_time(), sum(seconds.values())
            try:
                return function(*given, **named)
            finally:
                inside = sum(seconds.values()) - before
                spend(stage, time.process_time() - began - inside)

        setattr(owner, name, run)

    from paddle import static

    from graphopt.optimizer.optimizer import Optimizer
    from graphopt.optimizer.wrapping import WrappingOptimizer
    from graphopt.runtime.compile import compiling
    from graphopt.runtime.compile.compilation import Compilation
    from graphopt.runtime.settings.jax_import import import_jax

    spend("imports", time.process_time())
    timed(Optimizer, "minimize", "backward")
    timed(WrappingOptimizer, "minimize", "backward")
    timed(Compilation, "mask", "parse")
    timed(compiling, "optimize", "passes")
    timed(static.Executor, "run", "startup")
    execute = static.Executor.run

    def first_loss(self: Any, *given: Any, **named: Any) -> Any:
        began = time.process_time()
        if "build" not in seconds:
            spend("build", began - sum(seconds.values()))
            import_jax()
            spend("JAX", time.process_time() - began)
        if not named.get("fetch_list"):
            return execute(self, *given, **named)
        from graphopt.runtime.steps.xla_forms import XlaForms

        make, note, forms = XlaForms.make, getattr(XlaForms, NOTE), list[Any]()

        def kept(own: Any, name: str) -> Any:
            forms[:] = [own]
            return make(own, name)

        def noted(own: Any, name: str, spent: float, form: str = "") -> None:
            spend(name, spent)
            note(own, name, spent, form)

        XlaForms.make = kept
        setattr(XlaForms, NOTE, noted)
        startup = seconds.get("startup", 0.0)
        execute(self, *given, **named)
        end = time.process_time()
        seconds["other"] = end - sum(seconds.values()) + seconds.get("startup", 0.0) - startup
        seconds["startup"] = startup
        seconds["first loss"] = end
        seconds["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if full and forms:
            setattr(XlaForms, NOTE, lambda *_: None)
            make(forms[0], "full")
            seconds["XLA full"] = time.process_time() - end
        raise SystemExit

    static.Executor.run = first_loss
    with contextlib.suppress(SystemExit):
        if "path" in work:
            of_script(**work)
        else:
            of_training(**work)[1](0)
    return seconds


def measured(items: list[Any], run: Callable[[Any], Any]) -> dict[str, Any]:
    """Time the first item, each further one, and the last one again."""
    result = run(items[0])
    found: dict[str, Any] = {"first": [time.time() - BEGAN, time.process_time()]}
    results = [summary(result)]
    for key, rest in (("new", items[1:]), ("known", items[-1:] * AGAIN)):
        found[key] = []
        for item in rest:
            wall, cpu = time.perf_counter(), time.process_time()
            result = run(item)
            found[key].append([time.perf_counter() - wall, time.process_time() - cpu])
            if key == "new":
                results.append(summary(result))
    found["results"] = results
    return found


def summary(result: Any) -> Any:
    """Convert a result to JSON: arrays to their means of absolute values, texts unchanged."""
    if all(isinstance(each, np.ndarray) for each in result):
        return [float(np.mean(np.abs(each.astype("float64")))) for each in result]
    return result


def main() -> None:
    """Run the task that the argument describes in JSON."""
    task = json.loads(sys.argv[1])
    kind, given = task["kind"], task["given"]
    if kind == "script":
        print("FIRST_RESULT " + json.dumps(of_script(**given)))
        return
    if kind == "timeline":
        print("FIRST_RESULT " + json.dumps(of_timeline(**given)))
        return
    if kind == "training":
        items, run = of_training(**given)
    elif kind == "pictures":
        items, run = of_pictures(given)
    elif kind == "sentences":
        items, run = of_sentences(given)
    else:
        items, run = of_model(given["files"], given["shapes"])
    print("FIRST_RESULT " + json.dumps(measured(items, run)))


main()
