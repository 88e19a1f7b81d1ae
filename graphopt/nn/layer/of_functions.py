"""Layers that call one function with stored arguments.

A row names the function, the layer and its result. The layer has the arguments of the function
after its inputs, with their defaults, unless the row lists others. The stub beside this file, which
`docs/generate.py` writes, has the signatures for editors and type checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar, TypeVar

from graphopt.frontend import arguments
from graphopt.nn.functional import (
    activation,
    alignment,
    common,
    distance,
    fractional_pool,
    likelihood,
    loss,
    margin,
    pooling,
    unpool,
    vision,
)
from graphopt.nn.layer.layers import Layer
from graphopt.tensor.manipulation import flatten
from graphopt.tensor.stacking import unflatten

T = TypeVar("T")
_SELF = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)


class FunctionLayer(Layer):
    """A layer that calls a function with stored arguments; see `layer_of`.

    The arguments are attributes, which scripts read and set.
    """

    _names: ClassVar[tuple[str, ...]]
    """The function's argument names."""

    shown: ClassVar[tuple[str, ...] | None] = ()
    """The arguments in the layer's repr; None for all."""

    def _keep(self, given: Mapping[str, Any]) -> None:
        # not setattr, which would register a loss's weight as a parameter
        self.__dict__.update({self._attribute(name): value for name, value in given.items()})

    def _kept_arguments(self) -> dict[str, Any]:
        return {name: getattr(self, self._attribute(name)) for name in self._names}

    def _attribute(self, name: str) -> str:
        return f"_{name}"

    def extra_repr(self) -> str:
        kept = self._kept_arguments()
        shown = kept if self.shown is None else self.shown
        return ", ".join(f"{name}={kept[name]}" for name in shown)


class _Public(FunctionLayer):
    """A layer whose arguments are attributes under their own names."""

    def _attribute(self, name: str) -> str:
        return name


class _PoolLayer(FunctionLayer):
    """A pooling layer, whose representation shows its arguments."""

    shown = None


class _Window(_PoolLayer):
    """A pooling layer over windows; some of its attributes have other names."""

    def _attribute(self, name: str) -> str:
        return {"kernel_size": "ksize", "divisor_override": "divisor"}.get(name, name)


class _Loss(_Public):
    """A loss layer, which checks its reduction."""

    reductions: ClassVar[tuple[str, ...]] = ("mean", "sum", "none")

    def _keep(self, given: Mapping[str, Any]) -> None:
        arguments.choice(given["reduction"], "reduction", type(self).__name__, self.reductions)
        super()._keep(given)


class _Divergence(_Loss):
    reductions = ("mean", "sum", "none", "batchmean")


class _Cosine(_Loss):
    def _keep(self, given: Mapping[str, Any]) -> None:
        if not -1 <= given["margin"] <= 1:
            raise ValueError(
                f"{type(self).__name__}(): 'margin' should be in [-1, 1], not {given['margin']}"
            )
        super()._keep(given)


class _Pad(FunctionLayer):
    """A padding layer for the spatial dimensions; one number counts for every side."""

    def _keep(self, given: Mapping[str, Any]) -> None:
        amounts = arguments.integers(given["pad"], "padding", type(self).__name__)
        sides = 2 * (len(given["data_format"]) - 2)
        super()._keep({**given, "pad": amounts * sides if len(amounts) == 1 else amounts})

    def extra_repr(self) -> str:
        return f"padding={self._pad}, mode={self._mode}, value={self._value}"


class _Alignment(_Loss):
    def _keep(self, given: Mapping[str, Any]) -> None:
        arguments.integer(given["blank"], "blank", type(self).__name__)
        if "zero_infinity" in given:
            arguments.flag(given["zero_infinity"], "zero_infinity", type(self).__name__)
        if "fastemit_lambda" in given:
            arguments.number(given["fastemit_lambda"], "fastemit_lambda", type(self).__name__)
        super()._keep(given)


def layer_of(
    function: Callable[..., Any],
    name: str,
    text: str,
    kept: str = "",
    base: type[FunctionLayer] = FunctionLayer,
    *,
    input: str = "",
    call: str = "",
    shown: str | None = None,
    more: str = "",
    **values: Any,
) -> type[FunctionLayer]:
    """Create the layer class of a function.

    `kept` lists the arguments that the layer has, if it lacks some, orders them differently, or
    renames one (`own=theirs`). `values` are other defaults of these, and the function's arguments
    that the layer lacks. `input` renames the first input, and `call` lists arguments that a call
    may pass with its inputs. The function's `training` is the mode of the layer. `shown` lists the
    arguments in the layer's representation.
    """
    parameters = dict(signature(function).parameters)
    trains = parameters.pop("training", None) is not None
    inputs = [p.name for p in parameters.values() if _is_input(p)]
    pairs = kept.split() or [own for own in parameters if own not in inputs]
    theirs = {pair.partition("=")[0]: pair.rpartition("=")[2] for pair in pairs}
    fixed = {own: value for own, value in values.items() if own not in theirs.values()}
    given = [_argument(parameters[other], own, values) for own, other in theirs.items()]
    called = [parameters[own].replace(annotation="Any") for own in (*inputs, *call.split())]
    if input:
        called[0] = called[0].replace(name=input)
    members: dict[str, Any] = {
        "__doc__": f"{text} (paddle.nn.{name})." + (more and f"\n\n    {more}\n    "),
        "__module__": __name__,
        "_names": (*theirs.values(), *fixed),
        "__init__": _init(name, given, theirs, fixed),
        "forward": _forward(name, called, function, {input: inputs[0]} if input else {}, trains),
    }
    if shown is not None:
        members["shown"] = tuple(shown.split())
    return type(name, (base,), members)


def _init(
    name: str, given: Sequence[Parameter], theirs: Mapping[str, str], fixed: Mapping[str, Any]
) -> Callable[..., None]:
    """Create the `__init__` of a layer; `theirs` are the function's names of its arguments."""
    accepted = Signature([_SELF, *given], return_annotation="None")

    def __init__(self: FunctionLayer, *args: Any, **kwargs: Any) -> None:
        try:
            bound = accepted.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        Layer.__init__(self)
        bound.apply_defaults()
        self._keep({other: bound.arguments[own] for own, other in theirs.items()} | dict(fixed))

    return _method(__init__, name, accepted)


def _forward(
    name: str,
    called: Sequence[Parameter],
    function: Callable[..., Any],
    renamed: Mapping[str, str],
    trains: bool,
) -> Callable[..., Any]:
    """Create the `forward` of a layer; `renamed` are the function's names of inputs."""

    def forward(self: FunctionLayer, *inputs: Any, **kwargs: Any) -> Any:
        named = {renamed.get(own, own): value for own, value in kwargs.items()}
        if trains:
            named["training"] = self.training
        return function(*inputs, **named, **self._kept_arguments())

    return _method(forward, name, Signature([_SELF, *called], return_annotation="Any"))


def _method(function: T, layer: str, own: Signature) -> T:
    """Give a function the signature that `help` shows."""
    method: Any = function
    method.__qualname__ = f"{layer}.{method.__name__}"
    method.__signature__ = own
    return function


def _is_input(parameter: Parameter) -> bool:
    return parameter.annotation == "Variable" and parameter.default is Parameter.empty


def _argument(parameter: Parameter, name: str, defaults: Mapping[str, Any]) -> Parameter:
    default = defaults.get(parameter.name, parameter.default)
    return parameter.replace(name=name, default=default)


_pool, _window = partial(layer_of, base=_PoolLayer), partial(layer_of, base=_Window)
_loss, _public = partial(layer_of, base=_Loss), partial(layer_of, base=_Public)


# -- activations -----------------------------------------------------------------------------------
ReLU = layer_of(activation.relu, "ReLU", "max(x, 0)")
ReLU6 = layer_of(activation.relu6, "ReLU6", "min(max(x, 0), 6)")
Sigmoid = layer_of(activation.sigmoid, "Sigmoid", "1 / (1 + exp(-x))")
Tanh = layer_of(activation.tanh, "Tanh", "Hyperbolic tangent")
Silu = layer_of(activation.silu, "Silu", "x * sigmoid(x)")
Swish = layer_of(activation.swish, "Swish", "x * sigmoid(x)")
Hardswish = layer_of(activation.hardswish, "Hardswish", "x * relu6(x + 3) / 6")
Hardsigmoid = layer_of(activation.hardsigmoid, "Hardsigmoid", "min(max(x / 6 + 0.5, 0), 1)", "name")
LogSigmoid = layer_of(activation.log_sigmoid, "LogSigmoid", "log(sigmoid(x))")
Mish = layer_of(activation.mish, "Mish", "x * tanh(softplus(x))")
Softsign = layer_of(activation.softsign, "Softsign", "x / (1 + |x|)")
Tanhshrink = layer_of(activation.tanhshrink, "Tanhshrink", "x - tanh(x)")
GELU = layer_of(activation.gelu, "GELU", "x * Phi(x)")
LeakyReLU = layer_of(
    activation.leaky_relu, "LeakyReLU", "x where positive, negative_slope * x elsewhere"
)
ELU = layer_of(activation.elu, "ELU", "x where positive, alpha * (exp(x) - 1) elsewhere")
CELU = layer_of(activation.celu, "CELU", "x where positive, alpha * (exp(x / alpha) - 1) elsewhere")
SELU = layer_of(activation.selu, "SELU", "scale * elu(x, alpha)")
Softplus = layer_of(
    activation.softplus, "Softplus", "log(1 + exp(beta * x)) / beta; x where beta * x > threshold"
)
Softshrink = layer_of(
    activation.softshrink, "Softshrink", "x moved towards 0 by the threshold, 0 within it"
)
Hardshrink = layer_of(activation.hardshrink, "Hardshrink", "x, but 0 within the threshold")
Hardtanh = layer_of(activation.hardtanh, "Hardtanh", "x kept in [min, max]")
ThresholdedReLU = layer_of(
    activation.thresholded_relu, "ThresholdedReLU", "x above the threshold, `value` elsewhere"
)
Maxout = layer_of(
    activation.maxout, "Maxout", "The maximum of every `groups` adjacent elements along an axis"
)
Softmax = layer_of(activation.softmax, "Softmax", "exp(x) over its sum along `axis`", "axis name")
LogSoftmax = layer_of(
    activation.log_softmax, "LogSoftmax", "log(softmax(x)) along `axis`", "axis name"
)
GLU = layer_of(activation.glu, "GLU", "One half of x times the sigmoid of the other")
RReLU = layer_of(
    activation.rrelu,
    "RReLU",
    "x where positive, elsewhere x times a random slope",
    shown="lower upper",
)


# -- dropout and shapes ----------------------------------------------------------------------------
Dropout = _public(
    common.dropout,
    "Dropout",
    "Zero each element (or slices along `axis`) with probability p in training",
    input="input",
    shown="p axis mode",
)
Dropout2D = _public(
    common.dropout2d, "Dropout2D", "Zero whole channels of images in training", input="input"
)
Dropout3D = _public(
    common.dropout3d, "Dropout3D", "Zero whole channels of volumes in training", input="input"
)
AlphaDropout = _public(
    common.alpha_dropout,
    "AlphaDropout",
    "Dropout that keeps the mean and variance of selu's results",
    input="input",
    shown="p",
)
FeatureAlphaDropout = _public(
    common.feature_alpha_dropout,
    "FeatureAlphaDropout",
    "As `AlphaDropout`, for whole channels",
    input="input",
    shown="p",
)
Unflatten = _public(
    unflatten, "Unflatten", "One axis split into several", input="input", shown="axis shape"
)
Flatten = _public(
    flatten,
    "Flatten",
    "The axes from start to stop joined into one",
    "start_axis stop_axis",
    input="input",
    start_axis=1,
)
CosineSimilarity = layer_of(
    common.cosine_similarity,
    "CosineSimilarity",
    "The cosine of the angle between two tensors along `axis`",
)
PairwiseDistance = _public(
    margin.pairwise_distance,
    "PairwiseDistance",
    "The p-norm of x - y along the last axis",
    shown="p",
)


# -- images ----------------------------------------------------------------------------------------

_AROUND = {
    1: ("sequences [n, c, l]", "NCL"),
    2: ("images [n, c, h, w]", "NCHW"),
    3: ("volumes [n, c, d, h, w]", "NCDHW"),
}
_REQUIRED: Any = Parameter.empty
_WITH_VALUE = "padding=pad value data_format name"
_RESIZED = "size scale_factor mode align_corners align_mode data_format name"


def _pad(
    rank: int, name: str, text: str, kept: str = "padding=pad data_format name", **values: Any
) -> type[FunctionLayer]:
    """Create a padding layer for `rank` spatial dimensions."""
    around, data_format = _AROUND[rank]
    values = {"mode": "constant", "value": 0.0, **values, "data_format": data_format}
    return layer_of(vision.pad, name, f"{text} around {around}", kept, _Pad, **values)


def _make_resize_layer(
    name: str, text: str, kept: str = "size scale_factor data_format name", **values: Any
) -> type[FunctionLayer]:
    """Create a layer that resizes images."""
    values = {"mode": "nearest", "align_corners": False, "align_mode": 0, **values}
    return _public(vision.interpolate, name, text, kept, shown=_RESIZED, **values)


Pad1D = _pad(1, "Pad1D", "Padding of a chosen mode", "padding=pad mode value data_format name")
Pad2D = _pad(2, "Pad2D", "Padding of a chosen mode", "padding=pad mode value data_format name")
Pad3D = _pad(3, "Pad3D", "Padding of a chosen mode", "padding=pad mode value data_format name")
ZeroPad1D = _pad(1, "ZeroPad1D", "Zeros")
ZeroPad2D = _pad(2, "ZeroPad2D", "Zeros")
ZeroPad3D = _pad(3, "ZeroPad3D", "Zeros")
ConstantPad1D = _pad(1, "ConstantPad1D", "One number", _WITH_VALUE, value=_REQUIRED)
ConstantPad2D = _pad(2, "ConstantPad2D", "One number", _WITH_VALUE, value=_REQUIRED)
ConstantPad3D = _pad(3, "ConstantPad3D", "One number", _WITH_VALUE, value=_REQUIRED)
ReflectionPad1D = _pad(1, "ReflectionPad1D", "Mirrored elements", mode="reflect")
ReflectionPad2D = _pad(2, "ReflectionPad2D", "Mirrored elements", mode="reflect")
ReflectionPad3D = _pad(3, "ReflectionPad3D", "Mirrored elements", mode="reflect")
ReplicationPad1D = _pad(1, "ReplicationPad1D", "The nearest element", mode="replicate")
ReplicationPad2D = _pad(2, "ReplicationPad2D", "The nearest element", mode="replicate")
ReplicationPad3D = _pad(3, "ReplicationPad3D", "The nearest element", mode="replicate")
CircularPad1D = _pad(1, "CircularPad1D", "Elements of the opposite end", mode="circular")
CircularPad2D = _pad(2, "CircularPad2D", "Elements of the opposite end", mode="circular")
CircularPad3D = _pad(3, "CircularPad3D", "Elements of the opposite end", mode="circular")
PixelShuffle = layer_of(
    vision.pixel_shuffle, "PixelShuffle", "[n, c * r * r, h, w] as [n, c, h * r, w * r]"
)
PixelUnshuffle = layer_of(
    vision.pixel_unshuffle, "PixelUnshuffle", "[n, c, h * r, w * r] as [n, c * r * r, h, w]"
)
Upsample = _make_resize_layer("Upsample", "Images resized to a size, or by a factor", _RESIZED)
UpsamplingNearest2D = _make_resize_layer("UpsamplingNearest2D", "Images resized by nearest pixels")
UpsamplingBilinear2D = _make_resize_layer(
    "UpsamplingBilinear2D",
    "Images resized bilinearly, with aligned corners",
    mode="bilinear",
    align_corners=True,
)
ChannelShuffle = layer_of(
    vision.channel_shuffle, "ChannelShuffle", "The channels of `groups` groups interleaved"
)
Unfold = _public(
    vision.unfold,
    "Unfold",
    "The windows of images as columns",
    "kernel_sizes dilations paddings strides name",
    input="input",
)
Fold = _public(
    vision.fold,
    "Fold",
    "Images as sums of their windows, which are given as columns",
    "output_sizes kernel_sizes dilations paddings strides name",
    input="input",
)


# -- pools -----------------------------------------------------------------------------------------
MaxPool1D = _window(pooling.max_pool1d, "MaxPool1D", "The maximum of each window of sequences")
MaxPool2D = _window(pooling.max_pool2d, "MaxPool2D", "The maximum of each window of images")
MaxPool3D = _window(pooling.max_pool3d, "MaxPool3D", "The maximum of each window of volumes")
AvgPool1D = _window(pooling.avg_pool1d, "AvgPool1D", "The average of each window of sequences")
AvgPool2D = _window(pooling.avg_pool2d, "AvgPool2D", "The average of each window of images")
AvgPool3D = _window(pooling.avg_pool3d, "AvgPool3D", "The average of each window of volumes")
AdaptiveAvgPool1D = _pool(
    pooling.adaptive_avg_pool1d,
    "AdaptiveAvgPool1D",
    "The averages of `output_size` windows",
)
AdaptiveAvgPool2D = _pool(
    pooling.adaptive_avg_pool2d,
    "AdaptiveAvgPool2D",
    "The averages of `output_size` windows",
)
AdaptiveAvgPool3D = _pool(
    pooling.adaptive_avg_pool3d,
    "AdaptiveAvgPool3D",
    "The averages of `output_size` windows",
)
AdaptiveMaxPool1D = _pool(
    pooling.adaptive_max_pool1d,
    "AdaptiveMaxPool1D",
    "The maxima of `output_size` windows",
)
AdaptiveMaxPool2D = _pool(
    pooling.adaptive_max_pool2d,
    "AdaptiveMaxPool2D",
    "The maxima of `output_size` windows",
)
AdaptiveMaxPool3D = _pool(
    pooling.adaptive_max_pool3d,
    "AdaptiveMaxPool3D",
    "The maxima of `output_size` windows",
)
MaxUnPool1D = _pool(
    unpool.max_unpool1d, "MaxUnPool1D", "Sequences restored from their maxima and indices"
)
MaxUnPool2D = _pool(
    unpool.max_unpool2d, "MaxUnPool2D", "Images restored from their maxima and indices"
)
MaxUnPool3D = _pool(
    unpool.max_unpool3d, "MaxUnPool3D", "Volumes restored from their maxima and indices"
)
LPPool1D = _window(unpool.lp_pool1d, "LPPool1D", "The p-norm of each window of sequences")
LPPool2D = _window(unpool.lp_pool2d, "LPPool2D", "The p-norm of each window of images")
FractionalMaxPool2D = _pool(
    fractional_pool.fractional_max_pool2d,
    "FractionalMaxPool2D",
    "Maxima over windows that cover images",
)
FractionalMaxPool3D = _pool(
    fractional_pool.fractional_max_pool3d,
    "FractionalMaxPool3D",
    "Maxima over windows that cover volumes",
)


# -- losses ----------------------------------------------------------------------------------------
CrossEntropyLoss = _loss(
    loss.cross_entropy, "CrossEntropyLoss", "The cross entropy of softmax(input) along `axis`"
)
MSELoss = _loss(loss.mse_loss, "MSELoss", "The squared error", "reduction")
L1Loss = _loss(loss.l1_loss, "L1Loss", "The absolute error")
MarginRankingLoss = _loss(
    loss.margin_ranking_loss, "MarginRankingLoss", "max(0, -label * (input - other) + margin)"
)
BCELoss = _loss(
    likelihood.binary_cross_entropy,
    "BCELoss",
    "The cross entropy of probabilities with labels from 0 to 1",
)
BCEWithLogitsLoss = _loss(
    likelihood.binary_cross_entropy_with_logits,
    "BCEWithLogitsLoss",
    "The cross entropy of sigmoid(logit) with labels",
)
NLLLoss = _loss(likelihood.nll_loss, "NLLLoss", "The negated log-probability of each label")
KLDivLoss = layer_of(
    likelihood.kl_div,
    "KLDivLoss",
    "label * (log(label) - input), for log-probabilities",
    "reduction log_target",
    _Divergence,
)
SmoothL1Loss = _loss(
    distance.smooth_l1_loss,
    "SmoothL1Loss",
    "Half the squared error, linear from an error of delta on",
    more="It is divided by delta unless `is_huber`.",
)
CosineEmbeddingLoss = layer_of(
    distance.cosine_embedding_loss,
    "CosineEmbeddingLoss",
    "1 - cosine for the label 1, the cosine above a margin for -1",
    base=_Cosine,
    more="Raises ValueError when the margin is outside [-1, 1].",
)
HingeEmbeddingLoss = _loss(
    distance.hinge_embedding_loss,
    "HingeEmbeddingLoss",
    "The input for the label 1, its distance below a margin for -1",
)
MultiLabelMarginLoss = _loss(
    margin.multi_label_margin_loss,
    "MultiLabelMarginLoss",
    "The hinge loss of each label against the other classes",
)
SoftMarginLoss = _loss(
    likelihood.soft_margin_loss, "SoftMarginLoss", "log(1 + exp(-label * input))"
)
MultiLabelSoftMarginLoss = _loss(
    margin.multi_label_soft_margin_loss,
    "MultiLabelSoftMarginLoss",
    "The mean cross entropy of sigmoid(input) over classes",
)
MultiMarginLoss = _loss(
    margin.multi_margin_loss, "MultiMarginLoss", "The margin violations of wrong classes"
)
GaussianNLLLoss = _loss(
    likelihood.gaussian_nll_loss, "GaussianNLLLoss", "The negative log-likelihood of normal labels"
)
PoissonNLLLoss = _loss(
    likelihood.poisson_nll_loss, "PoissonNLLLoss", "The negative log-likelihood of Poisson labels"
)
TripletMarginLoss = _loss(
    margin.triplet_margin_loss,
    "TripletMarginLoss",
    "max(positive distance - negative distance + margin, 0)",
)
TripletMarginWithDistanceLoss = _loss(
    margin.triplet_margin_with_distance_loss,
    "TripletMarginWithDistanceLoss",
    "TripletMarginLoss with a custom distance",
)
CTCLoss = layer_of(
    alignment.ctc_loss,
    "CTCLoss",
    "The CTC loss",
    "blank reduction zero_infinity",
    _Alignment,
    call="norm_by_times",
)
RNNTLoss = layer_of(alignment.rnnt_loss, "RNNTLoss", "The RNN transducer loss", base=_Alignment)
