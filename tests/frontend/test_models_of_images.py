"""The models of paddle.vision.models have Paddle's parameters and compute its numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt.vision import models
from graphopt.vision.models import pretrained
from graphopt_tests.frontend.programs import fresh, run
from graphopt_tests.frontend.recorded_models import FILE, MODELS, description, weights

RECORDS = json.loads(FILE.read_text("utf-8"))
NAMED = (
    *("LeNet", "squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_25", "resnet18"),
    *("alexnet", "vgg11", "densenet121", "inception_v3", "mobilenet_v1", "mobilenet_v2"),
)


def tried(names: Sequence[str]) -> list[Any]:
    """Return all models; those not in `names` are marked exhaustive."""
    rest = pytest.mark.exhaustive
    return [name if name in names else pytest.param(name, marks=rest) for name in MODELS]


@pytest.mark.every(5)
@pytest.mark.parametrize("name", tried(NAMED))
def test_parameters_are_those_of_paddle(name: str) -> None:
    """Keys, shapes, order and names of variables are Paddle's."""
    found = description(paddle, name, compute=False)
    assert found == {key: RECORDS[name][key] for key in ("state", "variables")}


@pytest.mark.every(5)
@pytest.mark.parametrize("name", tried(["LeNet"]))
def test_results_are_those_of_paddle(name: str) -> None:
    """The results for the same weights and image are Paddle's."""
    results = description(paddle, name)["results"]
    for found, expected in zip(results, RECORDS[name]["results"], strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, 1e-3, 1e-4 * scale)


def test_weights_come_from_a_local_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are read from the folder or a path; the startup program keeps them."""
    monkeypatch.setattr(pretrained, "WEIGHTS_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="put SqueezeNet1_1_pretrained"), fresh():
        models.squeezenet1_1(pretrained=True)
    with fresh():
        state = weights(models.squeezenet1_1(num_classes=2).state_dict())
    path = tmp_path / "SqueezeNet1_1_pretrained.pdparams"
    paddle.save(state, str(path))
    for asked in (True, str(path)):
        with fresh():
            model = models.squeezenet1_1(pretrained=asked, num_classes=2)
            assert not static.default_startup_program().global_block().ops
            (found,) = run([model.state_dict()["_conv.weight"]])
        assert np.array_equal(found, state["_conv.weight"])
    del state["_conv9.bias"]
    paddle.save(state, str(path))
    with fresh(), pytest.raises(ValueError, match=r"no weights for _conv9\.bias"):
        models.squeezenet1_1(pretrained=True, num_classes=2)


@pytest.mark.exhaustive
def test_features_without_a_classifier() -> None:
    """Without pool and classes the result is an image; a model without weights is refused."""
    with fresh():
        x = static.data("x", [1, 3, 64, 64], "float32")
        assert models.resnet18(num_classes=0, with_pool=False)(x).shape == (1, 512, 2, 2)
        assert models.densenet121(num_classes=0)(x).shape == (1, 1024, 1, 1)
        assert len(models.googlenet(num_classes=0, with_pool=False)(x)) == 3
        assert "1.weight" in models.vgg11(batch_norm=True).features.state_dict()
        with pytest.raises(UnsupportedError, match="Paddle has no weights for this model"):
            models.vgg11(pretrained=True)


def test_networks_of_the_parts_of_a_resnet() -> None:
    """A script may define a block and a network, with other norms and dilation."""

    class Block(models.resnet.BottleneckBlock):
        def __init__(
            self,
            inplanes: int,
            planes: int,
            stride: int = 1,
            downsample: Any = None,
            groups: int = 1,
            base_width: int = 64,
            dilation: int = 1,
            norm_layer: Any = None,
        ) -> None:
            parts = (groups, base_width, dilation, norm_layer)
            super().__init__(inplanes, planes, stride, downsample, *parts)

    class Network(models.ResNet):
        def __init__(self) -> None:
            super().__init__(Block, 50, num_classes=0, with_pool=False)
            self._norm_layer = lambda channels: paddle.nn.GroupNorm(4, channels)
            self.inplanes = 64
            self.layer3 = self._make_layer(Block, 8, 1)
            self.layer4 = self._make_layer(Block, 8, 2, stride=2, dilate=True)

        def forward(self, x: Any) -> Any:
            return self.layer4(self.layer3(self.maxpool(self.conv1(x))))

    with fresh():
        network = Network()
        assert network(static.data("x", [1, 3, 32, 32], "float32")).shape == (1, 32, 8, 8)
        assert isinstance(network.layer4[0].bn1, paddle.nn.GroupNorm) and network.dilation == 2
        block = models.resnet.BottleneckBlock(8, 2, dilation=3)
        assert block(static.data("y", [1, 8, 9, 9], "float32")).shape == (1, 8, 9, 9)
        with pytest.raises(NotImplementedError, match="Dilation > 1 not supported in BasicBlock"):
            models.resnet.BasicBlock(8, 8, dilation=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: models.SqueezeNet("2"), "'version' should be 1.0 or 1.1"),
        (lambda: models.DenseNet(100), "'layers' should be one of"),
        (lambda: models.ResNet(models.resnet.BasicBlock, 20), "'depth' should be one of"),
        (lambda: models.ShuffleNetV2(3.0), "'scale' should be one of"),
    ],
)
def test_wrong_shapes(call: Callable[[], Any], message: str) -> None:
    with fresh(), pytest.raises(ValueError, match=message):
        call()
