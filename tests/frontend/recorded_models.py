"""Models of images with parameters and results recorded from Paddle.

    python tests/frontend/recorded_models.py

records them in `tests/data/recorded/models.json`, run by an interpreter that has Paddle 2.6.2. For
each model the file has a digest of the names, shapes and variables of its state, and its results
for
one image with `weights`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[1] / "data" / "recorded" / "models.json"
# each model and the size of images that it is tried with
MODELS = {
    "LeNet": 28,
    "alexnet": 224,
    **dict.fromkeys(("vgg11", "vgg13", "vgg16", "vgg19"), 64),
    **dict.fromkeys(("squeezenet1_0", "squeezenet1_1"), 64),
    **dict.fromkeys((f"densenet{n}" for n in (121, 161, 169, 201, 264)), 64),
    "googlenet": 224,
    "inception_v3": 96,
    **dict.fromkeys((f"mobilenet_{n}" for n in ("v1", "v2", "v3_small", "v3_large")), 64),
    **dict.fromkeys((f"resnet{n}" for n in (18, 34, 50, 101, 152)), 64),
    **dict.fromkeys((f"resnext{n}_{w}x4d" for n in (50, 101, 152) for w in (32, 64)), 64),
    **dict.fromkeys(("wide_resnet50_2", "wide_resnet101_2"), 64),
    **dict.fromkeys((f"shufflenet_v2_x{n}" for n in ("0_25", "0_33", "0_5")), 64),
    **dict.fromkeys((f"shufflenet_v2_{n}" for n in ("x1_0", "x1_5", "x2_0", "swish")), 64),
}


def weights(state: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Draw arrays for the variables of a state, scaled so that activations stay near 1."""
    made: dict[str, np.ndarray[Any, Any]] = {}
    for number, (name, variable) in enumerate(state.items()):
        shape = tuple(variable.shape)
        drawn = np.random.RandomState(number).uniform(-1, 1, shape)
        if name.endswith("_variance"):
            made[name] = 1 + 0.5 * drawn
        elif len(shape) == 1:
            made[name] = (1 if name.endswith("weight") else 0) + 0.1 * drawn
        else:
            inputs = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
            made[name] = drawn * (6 / inputs) ** 0.5
    return {name: array.astype("float32") for name, array in made.items()}


def description(paddle: Any, name: str, compute: bool = True) -> dict[str, Any]:
    """Return the digest of a model's state, and its results."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        size = MODELS[name]
        x = paddle.static.data("x", [1, 1 if name == "LeNet" else 3, size, size], "float32")
        model = getattr(paddle.vision.models, name)(num_classes=5)
        model.eval()
        state = model.state_dict()
        listed = [[key, list(v.shape), v.name] for key, v in state.items()]
        found: dict[str, Any] = {
            "state": hashlib.sha256(json.dumps(listed).encode()).hexdigest(),
            "variables": len(listed),
        }
        if compute:
            outputs = model(x)
            outputs = outputs if isinstance(outputs, list) else [outputs]
            executor = paddle.static.Executor(paddle.CPUPlace())
            executor.run(startup)
            model.set_state_dict(weights(state))
            found["results"] = _rounded(executor.run(main, {"x": _image(x.shape)}, outputs))
    return found


def _image(shape: Any) -> Any:
    return np.random.RandomState(0).uniform(-1, 1, shape).astype("float32")


def _rounded(values: Any) -> list[list[float]]:
    return [[float(f"{n:.6g}") for n in value.reshape(-1)] for value in values]


def _evaluated(paddle: Any, name: str) -> list[list[float]]:
    """Compute a DenseNet in dynamic mode.

    In static mode of 2.6.2 its `BatchNorm` layers normalize by the batch even after `eval()`.
    """
    paddle.disable_static()
    model = getattr(paddle.vision.models, name)(num_classes=5)
    model.set_state_dict(weights(model.state_dict()))
    model.eval()
    results = _rounded([model(paddle.to_tensor(_image([1, 3, 64, 64]))).numpy()])
    paddle.enable_static()
    return results


def main() -> None:
    """Record every model with the installed Paddle."""
    import paddle

    paddle.enable_static()
    records: dict[str, dict[str, Any]] = {}
    for name in MODELS:
        is_dense = name.startswith("densenet")
        records[name] = description(paddle, name, compute=not is_dense)
        if is_dense:
            records[name]["results"] = _evaluated(paddle, name)
    FILE.write_text(json.dumps(records, indent=0) + "\n", "utf-8")


if __name__ == "__main__":
    main()
