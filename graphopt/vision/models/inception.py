"""Networks of parallel branches: GoogLeNet and Inception v3."""

from __future__ import annotations

from typing import Any

from graphopt.nn.functional.activation import relu
from graphopt.nn.layer.common import Linear
from graphopt.nn.layer.container import LayerList
from graphopt.nn.layer.conv import Conv2D
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.of_functions import AdaptiveAvgPool2D, AvgPool2D, Dropout, MaxPool2D
from graphopt.tensor.manipulation import concat, flatten, reshape, squeeze
from graphopt.vision.models.blocks import ConvNormActivation, uniform_attr
from graphopt.vision.models.pretrained import with_weights


class _Conv(Layer):
    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self._conv = Conv2D(inputs, outputs, size, stride, (size - 1) // 2, bias_attr=False)

    def forward(self, inputs: Any) -> Any:
        return self._conv(inputs)


class _Inception(Layer):
    """Four branches: 1x1, 3x3 and 5x5 after narrower 1x1, and a pool."""

    def __init__(self, inputs: int, *sizes: int) -> None:
        super().__init__()
        one, narrow3, three, narrow5, five, pooled = sizes
        self._conv1 = _Conv(inputs, one, 1)
        self._conv3r = _Conv(inputs, narrow3, 1)
        self._conv3 = _Conv(narrow3, three, 3)
        self._conv5r = _Conv(inputs, narrow5, 1)
        self._conv5 = _Conv(narrow5, five, 5)
        self._pool = MaxPool2D(3, 1, 1)
        self._convprj = _Conv(inputs, pooled, 1)

    def forward(self, inputs: Any) -> Any:
        branches = [
            self._conv1(inputs),
            self._conv3(self._conv3r(inputs)),
            self._conv5(self._conv5r(inputs)),
            self._convprj(self._pool(inputs)),
        ]
        return relu(concat(branches, 1))


_INCEPTIONS = {
    "3a": (192, 64, 96, 128, 16, 32, 32),
    "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64),
    "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64),
    "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128),
    "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}


class GoogLeNet(Layer):
    """GoogLeNet, which returns three results: its own and two for training.

    Paddle page: paddle.vision.models.GoogLeNet.
    """

    def __init__(self, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        self._conv = _Conv(3, 64, 7, 2)
        self._pool = MaxPool2D(3, 2)
        self._conv_1 = _Conv(64, 64, 1)
        self._conv_2 = _Conv(64, 192, 3)
        for name, sizes in _INCEPTIONS.items():
            self.add_sublayer(f"_ince{name}", _Inception(*sizes))
        if with_pool:
            self._pool_5 = AdaptiveAvgPool2D(1)
            self._pool_o1 = AvgPool2D(5, 3)
            self._pool_o2 = AvgPool2D(5, 3)
        if num_classes > 0:
            self._drop = Dropout(0.4, mode="downscale_in_infer")
            self._fc_out = _linear(1024, num_classes, 1024)
            self._conv_o1 = _Conv(512, 128, 1)
            self._fc_o1 = _linear(1152, 1024, 2048)
            self._drop_o1 = Dropout(0.7, mode="downscale_in_infer")
            self._out1 = _linear(1024, num_classes, 1024)
            self._conv_o2 = _Conv(528, 128, 1)
            self._fc_o2 = _linear(1152, 1024, 2048)
            self._drop_o2 = Dropout(0.7, mode="downscale_in_infer")
            self._out2 = _linear(1024, num_classes, 1024)

    def forward(self, inputs: Any) -> list[Any]:
        x = self._pool(self._conv_2(self._conv_1(self._pool(self._conv(inputs)))))
        made: dict[str, Any] = {}
        for name in _INCEPTIONS:
            x = made[name] = getattr(self, f"_ince{name}")(x)
            x = self._pool(x) if name in ("3b", "4e") else x
        out, first, second = x, made["4a"], made["4d"]
        if self.with_pool:
            out, first = self._pool_5(out), self._pool_o1(first)
            second = self._pool_o2(second)
        if self.num_classes > 0:
            out = self._fc_out(squeeze(self._drop(out), [2, 3]))
            first = relu(self._fc_o1(flatten(self._conv_o1(first), 1)))
            first = self._out1(self._drop_o1(first))
            # as in Paddle, no activation
            second = self._fc_o2(flatten(self._conv_o2(second), 1))
            second = self._out2(self._drop_o2(second))
        return [out, first, second]


def _linear(inputs: int, outputs: int, channels: int) -> Linear:
    return Linear(inputs, outputs, weight_attr=uniform_attr(channels / 3.0))


def googlenet(pretrained: bool | str = False, **kwargs: Any) -> GoogLeNet:
    """Build GoogLeNet (paddle.vision.models.googlenet)."""
    file = "GoogLeNet_pretrained.pdparams"
    return with_weights(GoogLeNet(**kwargs), "googlenet", file, pretrained)


class _Branches(Layer):
    """Named convolutions; the results of branches are joined along the channels.

    A branch is a list of names, called in sequence; a list inside it is called in parallel. `pool`
    is the name of a pool.
    """

    def __init__(self, pool: Layer, branches: list[Any], **convs: tuple[Any, ...]) -> None:
        super().__init__()
        self._branches = branches
        for name, sizes in convs.items():
            if name == "branch_pool_conv":
                self.branch_pool = pool
            inputs, outputs, size, *rest = sizes
            stride, padding = (*rest, 0)[:2] if rest else (1, 0)
            self.add_sublayer(name, ConvNormActivation(inputs, outputs, size, stride, padding))
        if "branch_pool_conv" not in convs:
            self.branch_pool = pool

    def forward(self, x: Any) -> Any:
        return concat([self._along(branch, x) for branch in self._branches], 1)

    def _along(self, branch: list[Any], x: Any) -> Any:
        for step in branch:
            if isinstance(step, list):
                x = concat([getattr(self, name)(x) for name in step], 1)
            else:
                x = getattr(self, step)(x)
        return x


def _mean_pool() -> Layer:
    return AvgPool2D(3, 1, 1, exclusive=False)


def _chain(name: str, *steps: Any) -> list[Any]:
    return [f"{name}_{step}" for step in steps]


_POOLED = ["branch_pool", "branch_pool_conv"]


def _a(inputs: int, pooled: int) -> _Branches:
    branches = [
        ["branch1x1"],
        _chain("branch5x5", 1, 2),
        _chain("branch3x3dbl", 1, 2, 3),
        _POOLED,
    ]
    return _Branches(
        _mean_pool(),
        branches,
        branch1x1=(inputs, 64, 1),
        branch5x5_1=(inputs, 48, 1),
        branch5x5_2=(48, 64, 5, 1, 2),
        branch3x3dbl_1=(inputs, 64, 1),
        branch3x3dbl_2=(64, 96, 3, 1, 1),
        branch3x3dbl_3=(96, 96, 3, 1, 1),
        branch_pool_conv=(inputs, pooled, 1),
    )


def _b(inputs: int) -> _Branches:
    branches = [["branch3x3"], _chain("branch3x3dbl", 1, 2, 3), ["branch_pool"]]
    return _Branches(
        MaxPool2D(3, 2),
        branches,
        branch3x3=(inputs, 384, 3, 2),
        branch3x3dbl_1=(inputs, 64, 1),
        branch3x3dbl_2=(64, 96, 3, 1, 1),
        branch3x3dbl_3=(96, 96, 3, 2),
    )


def _c(inputs: int, inner: int) -> _Branches:
    across, down = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
    branches = [
        ["branch1x1"],
        _chain("branch7x7", 1, 2, 3),
        _chain("branch7x7dbl", 1, 2, 3, 4, 5),
        _POOLED,
    ]
    return _Branches(
        _mean_pool(),
        branches,
        branch1x1=(inputs, 192, 1),
        branch7x7_1=(inputs, inner, 1),
        branch7x7_2=(inner, inner, *across),
        branch7x7_3=(inner, 192, *down),
        branch7x7dbl_1=(inputs, inner, 1),
        branch7x7dbl_2=(inner, inner, *down),
        branch7x7dbl_3=(inner, inner, *across),
        branch7x7dbl_4=(inner, inner, *down),
        branch7x7dbl_5=(inner, 192, *across),
        branch_pool_conv=(inputs, 192, 1),
    )


def _d(inputs: int) -> _Branches:
    branches = [_chain("branch3x3", 1, 2), _chain("branch7x7x3", 1, 2, 3, 4), ["branch_pool"]]
    return _Branches(
        MaxPool2D(3, 2),
        branches,
        branch3x3_1=(inputs, 192, 1),
        branch3x3_2=(192, 320, 3, 2),
        branch7x7x3_1=(inputs, 192, 1),
        branch7x7x3_2=(192, 192, (1, 7), 1, (0, 3)),
        branch7x7x3_3=(192, 192, (7, 1), 1, (3, 0)),
        branch7x7x3_4=(192, 192, 3, 2),
    )


def _e(inputs: int) -> _Branches:
    across, down = ((1, 3), 1, (0, 1)), ((3, 1), 1, (1, 0))
    branches = [
        ["branch1x1"],
        ["branch3x3_1", _chain("branch3x3", "2a", "2b")],
        ["branch3x3dbl_1", "branch3x3dbl_2", _chain("branch3x3dbl", "3a", "3b")],
        _POOLED,
    ]
    return _Branches(
        _mean_pool(),
        branches,
        branch1x1=(inputs, 320, 1),
        branch3x3_1=(inputs, 384, 1),
        branch3x3_2a=(384, 384, *across),
        branch3x3_2b=(384, 384, *down),
        branch3x3dbl_1=(inputs, 448, 1),
        branch3x3dbl_2=(448, 384, 3, 1, 1),
        branch3x3dbl_3a=(384, 384, *across),
        branch3x3dbl_3b=(384, 384, *down),
        branch_pool_conv=(inputs, 192, 1),
    )


class _Stem(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.conv_1a_3x3 = ConvNormActivation(3, 32, 3, 2, 0)
        self.conv_2a_3x3 = ConvNormActivation(32, 32, 3, 1, 0)
        self.conv_2b_3x3 = ConvNormActivation(32, 64, 3, 1, 1)
        self.max_pool = MaxPool2D(3, 2)
        self.conv_3b_1x1 = ConvNormActivation(64, 80, 1, 1, 0)
        self.conv_4a_3x3 = ConvNormActivation(80, 192, 3, 1, 0)

    def forward(self, x: Any) -> Any:
        x = self.max_pool(self.conv_2b_3x3(self.conv_2a_3x3(self.conv_1a_3x3(x))))
        return self.max_pool(self.conv_4a_3x3(self.conv_3b_1x1(x)))


class InceptionV3(Layer):
    """Inception v3 for images [n, 3, 299, 299] (paddle.vision.models.InceptionV3)."""

    def __init__(self, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.inception_stem = _Stem()
        blocks = [_a(192, 32), _a(256, 64), _a(288, 64), _b(288)]
        blocks += [_c(768, inner) for inner in (128, 160, 160, 192)]
        self.inception_block_list = LayerList([*blocks, _d(768), _e(1280), _e(2048)])
        if with_pool:
            self.avg_pool = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.dropout = Dropout(0.2, mode="downscale_in_infer")
            self.fc = Linear(2048, num_classes, weight_attr=uniform_attr(2048))

    def forward(self, x: Any) -> Any:
        x = self.inception_stem(x)
        for block in self.inception_block_list:
            x = block(x)
        x = self.avg_pool(x) if self.with_pool else x
        return self.fc(self.dropout(reshape(x, [-1, 2048]))) if self.num_classes > 0 else x


def inception_v3(pretrained: bool | str = False, **kwargs: Any) -> InceptionV3:
    """Build Inception v3 (paddle.vision.models.inception_v3)."""
    file = "inception_v3.pdparams"
    return with_weights(InceptionV3(**kwargs), "inception_v3", file, pretrained)
