"""Workloads: one model with one feed, written for each framework.

Workers of all frameworks import this file and the workloads, so neither imports any of them: the
functions of a workload get the framework's layers (see `layers/`) as their first argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

Array = Any
Arrays = dict[str, np.ndarray[Any, Any]]
Sizes = SimpleNamespace


@dataclass(frozen=True)
class Optimizer:
    """The kind of update of parameters: "sgd", "momentum", "adam", "adamw" or "lazy_adam"."""

    kind: str
    rate: float = 0.001


@dataclass(frozen=True)
class Workload:
    """One model with one feed.

    `sizes` has "full", which is measured, and "toy", which the tests run. `model` computes values
    from the feed with the layers of Paddle or of plain JAX, and `torch` builds a module that does
    the same. `head` maps the values to the loss; inference has no optimizer and returns the values.
    The `flags` of BuildStrategy make this workload fast. With `low`, a dtype, products are computed
    in it and all else in float32; with `parallel` the batch is split over all devices; with
    `on_device` the feed is on the device before the step. A workload that runs `alone` leaves no
    room on a device for another engine. `counted` names the unit of a batch, such as "words".
    """

    name: str
    title: str
    sizes: Mapping[str, Sizes]
    feed: Callable[[np.random.Generator, Sizes], Arrays]
    model: Callable[[Any, Any, Sizes], Array] | None = None
    torch: Callable[[Any, Sizes], Any] | None = None
    head: str = "output"
    optimizer: Optimizer | None = None
    flags: tuple[str, ...] = ()
    tolerance: float = 1e-3
    compile_only: bool = False
    model_dir: str = ""
    low: str = ""
    parallel: bool = False
    on_device: bool = False
    alone: bool = False
    counted: str = ""

    def count(self, size: str) -> int:
        """Count the images or words of a step."""
        sizes = self.sizes[size]
        return sizes.batch * (sizes.length if self.counted == "words" else 1)

    @property
    def training(self) -> bool:
        """True when a step updates parameters."""
        return self.optimizer is not None

    def example(self, size: str) -> Arrays:
        """Make the feed of every step: the same on each engine."""
        return self.feed(np.random.default_rng(0), self.sizes[size])


def images(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw images [batch, 3, side, side] with a class for each."""
    picture = random.standard_normal((sizes.batch, 3, sizes.side, sizes.side), "float32")
    return {"x": picture, "label": random.integers(0, sizes.classes, (sizes.batch, 1))}


def image_only(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw images alone, for inference."""
    return {"x": images(random, sizes)["x"]}


def rows(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw rows [batch, inputs] with a class for each."""
    x = random.standard_normal((sizes.batch, sizes.inputs), "float32")
    return {"x": x, "label": random.integers(0, sizes.classes, (sizes.batch, 1))}


def sentences(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw words [batch, length], each with the word to predict."""
    shape = (sizes.batch, sizes.length)
    ids = random.integers(0, sizes.words, shape)
    return {"x": ids, "label": random.integers(0, sizes.words, (*shape, 1))}
