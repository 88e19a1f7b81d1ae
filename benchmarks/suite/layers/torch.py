"""Layers as PyTorch modules, registered in the order in which a Paddle program makes parameters."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Tensor = torch.Tensor
linear = nn.Linear
relu = nn.ReLU
tanh = nn.Tanh
norm = nn.LayerNorm
sequential = nn.Sequential
flat = nn.Flatten


def conv_bn(
    inner: int, outer: int, kernel: int, *, stride: int = 1, groups: int = 1, act: str = "relu"
) -> nn.Sequential:
    """Build a convolution that keeps or halves the size of the image, and a batch norm."""
    conv = nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False)
    ends = {"relu": [nn.ReLU()], "relu6": [nn.ReLU6()], "": []}[act]
    return nn.Sequential(conv, nn.BatchNorm2d(outer, momentum=0.1), *ends)


class Residual(nn.Module):
    """A body and a shortcut; `act` ends the sum with a relu."""

    def __init__(self, short: nn.Module, body: nn.Module, *, act: bool = True) -> None:
        super().__init__()
        self.short, self.body, self.act = short, body, act

    def forward(self, x: Tensor) -> Tensor:
        total = self.short(x) + self.body(x)
        return F.relu(total) if self.act else total


class Average(nn.Module):
    """The mean of each channel: [n, channels]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


class Encoder(nn.Module):
    """A layer of a Transformer encoder on [batch, length, width], norm last or first."""

    def __init__(self, width: int, heads: int, first: bool = False, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.first, self.causal = heads, first, causal
        if first:  # parameters in the order of the Paddle program
            self.norm1 = nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        if not first:
            self.norm1 = nn.LayerNorm(width)
        else:
            self.norm2 = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        if not first:
            self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        if self.first:
            x = x + self.mixed(self.norm1(x))
            return x + self.narrow(F.gelu(self.wide(self.norm2(x))))
        x = self.norm1(x + self.mixed(x))
        return self.norm2(x + self.narrow(F.gelu(self.wide(x))))

    def mixed(self, x: Tensor) -> Tensor:
        """Compute attention with its four products."""
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Positions(nn.Module):
    """A learned vector for each position, added to [batch, length, width]."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.learned = nn.Parameter(torch.zeros(length, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.learned


class Patches(nn.Module):
    """Patches of images as [batch, patches, width]."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, size, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).flatten(2).transpose(1, 2)


class Token(nn.Module):
    """A learned vector before [batch, length, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.learned = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.learned.expand(len(x), 1, -1), x], 1)


class First(nn.Module):
    """The first row of each [batch, length, width]."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


class Attention(nn.Module):
    """Attention over parameters: nothing is fed."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.inputs = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for _ in range(3))

    def forward(self, _: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(*self.inputs)


class MeanSquares(nn.Module):
    """The sum of the means of squares of many parameters."""

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.inputs = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for _ in range(count))

    def forward(self, _: Tensor | None) -> Tensor:
        return sum((w * w).mean() for w in self.inputs)


def max_pool() -> nn.Module:
    """Build a maximum over 3 x 3 windows with stride 2."""
    return nn.MaxPool2d(3, 2, 1)


def embedding(words: int, width: int, *, sparse: bool = False) -> nn.Module:
    """Build a table with look-ups of its rows."""
    return nn.Embedding(words, width, sparse=sparse)


def loss_of(kind: str, values: Tensor, label: Tensor | None) -> Tensor:
    """Map the values of a model to its loss, or to the result of inference."""
    if kind == "cross_entropy":
        assert label is not None
        return F.cross_entropy(values.flatten(0, -2), label.flatten())
    if kind == "mean_square":
        return (values * values).mean()
    return values.mean() if kind == "mean" else values


def optimizers(kind: str, rate: float, model: nn.Module) -> list[Any]:
    """Create the optimizers of a workload: tables have a sparse one for lazy Adam."""
    params = list(model.parameters())
    if kind == "sgd":
        return [torch.optim.SGD(params, rate)]
    if kind == "momentum":
        return [torch.optim.SGD(params, rate, momentum=0.9, fused=True)]
    if kind == "adamw":
        return [torch.optim.AdamW(params, rate, weight_decay=0.01, fused=True)]
    if kind == "adam":
        return [torch.optim.Adam(params, rate, fused=True)]
    tables = [p for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()]
    rest = [p for p in params if all(p is not table for table in tables)]
    return [torch.optim.SparseAdam(tables, rate), torch.optim.Adam(rest, rate, fused=True)]


def leaves(model: nn.Module) -> list[tuple[nn.Module, str, Tensor]]:
    """List parameters and running statistics in a Paddle program's order, with their modules."""
    found: list[tuple[nn.Module, str, Tensor]] = []
    for module in model.modules():
        own = dict(module.named_parameters(recurse=False)) | dict(
            module.named_buffers(recurse=False)
        )
        found += [(module, n, t) for n, t in own.items() if n != "num_batches_tracked"]
    return found


def load(model: nn.Module, arrays: list[Any]) -> None:
    """Fill a model with the arrays of a Paddle program; linear weights are [in, out] there."""
    with torch.no_grad():
        for (module, name, tensor), array in zip(leaves(model), arrays, strict=True):
            value = torch.from_numpy(array)
            transposed = isinstance(module, nn.Linear) and name == "weight"
            tensor.copy_(value.T if transposed else value)
