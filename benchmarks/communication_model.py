"""A model of communication by the number of devices: AllReduce, Reduce, sharded parameters.

    python benchmarks/communication_model.py
    python benchmarks/communication_model.py --parameters 350e6 --tensors 300 --compute-ms 250
    python benchmarks/communication_model.py --published
    python benchmarks/communication_model.py --jobs

A ring moves the gradients of N bytes in D pieces. `AllReduce` sums them everywhere: a
reduce-scatter and an all-gather of gradients. `Reduce` stops after the reduce-scatter, updates the
piece that a device owns, and gathers parameters instead. With `shard_parameters` they are gathered
twice, before a layer computes forward and backward, and no parameter is whole between steps. On a
second axis, `tensor_parallel_degree`, values are summed over the devices of a replica.

The only measurement here is the byte count of `simulate`, which moves arrays around a ring.
`--published` compares the model with published measurements of steps, and `--jobs` estimates the
cost of slow and lost devices; see docs/explanation/communication.md.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

DEVICES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Link:
    """A link between ring neighbors: bytes a second, and seconds until the first byte arrives."""

    name: str
    bandwidth: float
    latency: float


LINKS = (
    Link("Ethernet 10 Gb/s", 1.25e9, 50e-6),
    Link("Ethernet 100 Gb/s", 12.5e9, 10e-6),
    Link("InfiniBand 400 Gb/s", 50e9, 5e-6),
    Link("NVLink or TPU ICI", 200e9, 2e-6),
)
# NVLink 4 has 18 links in each direction in H100 and H200
NVLINK = Link("NVLink 4", 450e9, 2e-6)


@dataclass(frozen=True)
class Model:
    """A model in training; `state` is the optimizer's numbers for each parameter (Adam: 2)."""

    parameters: float
    tensors: int
    compute: float
    gradient_bytes: int = 4
    parameter_bytes: int = 4
    state: int = 2


@dataclass(frozen=True)
class Cost:
    """The cost for one device and step."""

    sent: float
    seconds: float
    state_bytes: float
    parameter_bytes: float


def pass_around(size: float, devices: int, collectives: int, link: Link) -> tuple[float, float]:
    """Compute bytes sent and seconds of a reduce-scatter or all-gather of `size` bytes on a ring.

    D - 1 rounds of one D-th each; every collective pays the latency of its own rounds.
    """
    sent = (devices - 1) / devices * size
    return sent, sent / link.bandwidth + collectives * (devices - 1) * link.latency


def all_reduce(model: Model, devices: int, link: Link, *, combined: bool = True) -> Cost:
    """Model `AllReduce`: gradients are summed everywhere; every device updates all parameters.

    `combined` counts one collective (XLA combines them), otherwise one for each tensor.
    """
    count = 1 if combined else model.tensors
    half = pass_around(model.parameters * model.gradient_bytes, devices, count, link)
    state = model.parameters * model.state * 4
    return Cost(2 * half[0], 2 * half[1], state, model.parameters * model.parameter_bytes)


def reduce(model: Model, devices: int, link: Link, *, combined: bool = True) -> Cost:
    """Model `Reduce`: each device sums and updates its piece, and all gather the parameters."""
    count = 1 if combined else model.tensors
    scatter = pass_around(model.parameters * model.gradient_bytes, devices, count, link)
    gather = pass_around(model.parameters * model.parameter_bytes, devices, count, link)
    state = model.parameters * model.state * 4 / devices
    whole = model.parameters * model.parameter_bytes
    return Cost(scatter[0] + gather[0], scatter[1] + gather[1], state, whole)


def in_parts(model: Model, devices: int, link: Link, *, combined: bool = False) -> Cost:
    """Model `shard_parameters`: `reduce` with a second gather; a collective for each tensor.

    The parameters of two tensors, which are whole at a time, are not counted.
    """
    count = 1 if combined else model.tensors
    once = reduce(model, devices, link, combined=combined)
    again = pass_around(model.parameters * model.parameter_bytes, devices, count, link)
    kept = model.parameters * model.parameter_bytes / devices
    return Cost(once.sent + again[0], once.seconds + again[1], once.state_bytes, kept)


def efficiency(model: Model, cost: Cost, *, hidden: bool = False) -> float:
    """Compute the fraction of a step that computes, with all communication overlapped or none."""
    seconds = max(model.compute, cost.seconds) if hidden else model.compute + cost.seconds
    return model.compute / seconds


@dataclass(frozen=True)
class Transformer:
    """A decoder in bfloat16 that sums gradients as float32 and recomputes activations."""

    name: str
    parameters: float
    layers: int
    width: int
    sequence: int = 4096

    @property
    def work(self) -> float:
        """Floating-point operations for a token, forward and backward, counted once."""
        return 6 * self.parameters + 12 * self.layers * self.width * self.sequence

    def sums(self, tokens: int, degree: int, link: Link) -> float:
        """Compute the seconds of the sums over a replica of `degree` devices: two in a layer, three
        times.

        The three times are forward, the recomputation for the derivative, and the derivative.
        """
        _, seconds = pass_around(tokens * self.width * 2, degree, 1, link)
        return 3 * 2 * self.layers * 2 * seconds


@dataclass(frozen=True)
class Published:
    """A measured step: `steps` times `tokens` for each replica of `degree` devices."""

    model: Transformer
    replicas: int
    degree: int
    machines: int
    tokens: int
    steps: int
    measured: float
    """The measured seconds of a step."""

    def predicted(self) -> tuple[float, float]:
        """Predict the step's seconds with all gathers and scatters overlapped, and with none."""
        compute = self.steps * self.tokens * self.model.work / RATE / self.degree
        if self.degree > 1:
            compute *= LOSS
        sums = self.steps * self.model.sums(self.tokens, self.degree, NVLINK)
        part = Model(self.model.parameters / self.degree, 9 * self.model.layers, 0.0, 4, 2)
        # at degree 1, one ring has all links of a machine; at degree 4, each device's ring has one
        inside = 4 // self.degree if self.machines > 1 else 0
        between = Link("", inside * INFINIBAND.bandwidth, INFINIBAND.latency)
        parts = in_parts(part, self.replicas, between if inside else NVLINK)
        return max(compute + sums, self.steps * parts.seconds), compute + sums + (
            self.steps * parts.seconds
        )

    @property
    def expected(self) -> float:
        """Seconds of the step when half of the gathers and scatters overlaps."""
        return sum(self.predicted()) / 2


# KempnerForge's benchmarks of 2026-04-05 (mfu_scaling): 4 H200 with NVLink in each machine, and 400
# Gb/s InfiniBand for each H200 between machines. One device processed 10,471 tokens a second.
INFINIBAND = LINKS[2]
_7B = Transformer("7B", 8.03e9, 32, 4096)
_13B = Transformer("13B", 14.84e9, 40, 5120)
_70B = Transformer("70B", 70.55e9, 80, 8192)
RATE = 10471 * _7B.work
# The slowdown of two devices with split products in addition to their sums. Four devices lose no
# more, so it is not communication. From the second row of the table: 2.49 s.
LOSS = 1.52
PUBLISHED = (
    Published(_7B, 2, 1, 1, 16384, 2, 3.50),
    Published(_7B, 1, 2, 1, 16384, 2, 2.49),
    Published(_7B, 4, 1, 1, 16384, 2, 3.36),
    Published(_7B, 1, 4, 1, 16384, 2, 1.30),
    Published(_7B, 2, 2, 1, 16384, 2, 2.52),
    Published(_7B, 2, 4, 2, 16384, 2, 1.48),
    Published(_13B, 8, 1, 2, 16384, 4, 14.81),
    Published(_13B, 2, 4, 2, 16384, 4, 4.79),
    Published(_7B, 4, 4, 4, 16384, 2, 1.58),
    Published(_13B, 4, 4, 4, 16384, 4, 4.87),
    Published(_7B, 8, 4, 8, 16384, 2, 1.68),
    Published(_13B, 8, 4, 8, 16384, 4, 5.03),
    Published(_70B, 8, 4, 8, 8192, 4, 14.85),
)


def published() -> Iterator[str]:
    """Yield a Markdown table: seconds of a step, measured by others and by the model."""
    yield "| model | replicas x devices | machines | measured, s | hidden | half | none | off |"
    yield "|---|-:|-:|-:|-:|-:|-:|-:|"
    for each in PUBLISHED:
        least, most = each.predicted()
        yield (
            f"| {each.model.name} | {each.replicas} x {each.degree} | {each.machines} | "
            f"{each.measured:.2f} | {least:.2f} | {each.expected:.2f} | {most:.2f} | "
            f"{each.expected / each.measured - 1:+.0%} |"
        )


def slowest(devices: int, spread: float) -> float:
    """Compute the relative time of a step that waits for the slowest of `devices`.

    The seconds of the devices are normal, with `spread` as the deviation, relative to the mean.
    """
    points = np.linspace(-8.0, 12.0, 20001)
    below = np.array([0.5 * (1 + math.erf(point / math.sqrt(2))) for point in points])
    density = np.gradient(below**devices, points)
    return 1 + spread * float(np.sum(points * density) * (points[1] - points[0]))


@dataclass(frozen=True)
class Failures:
    """Seconds between failures of one device, of a save, and of a restart."""

    apart: float
    save: float
    restart: float

    def interval(self, devices: int) -> float:
        """Compute the seconds between saves that lose the least (Young's formula)."""
        return math.sqrt(2 * self.save * self.apart / devices)

    def useful(self, devices: int, interval: float | None = None) -> float:
        """Compute the fraction of the time in steps that are not lost.

        A save stops the training, and a failure loses half an interval and a restart.
        """
        between = interval or self.interval(devices)
        lost = self.save / between + (between / 2 + self.restart) * devices / self.apart
        return max(1 - lost, 0.0)


# 419 failures in 54 days of 16,384 devices (The Llama 3 Herd of Models, 2024). The paper does not
# say how long a save stopped training, or how long a restart took: both are assumptions here.
LLAMA = Failures(apart=54 * 86400 * 16384 / 419, save=10.0, restart=600.0)


def jobs() -> Iterator[str]:
    """Yield the lines of a Markdown table: the useful part of a job with slow and lost devices."""
    yield "| D | slowest, 2 % | 5 % | hours to a failure | minutes to a save | useful | 30 s |"
    yield "|-:|-:|-:|-:|-:|-:|-:|"
    soon = Failures(LLAMA.apart, LLAMA.save, restart=30.0)
    for devices in (8, 64, 512, 4096, 16384):
        yield (
            f"| {devices} | {1 / slowest(devices, 0.02):.1%} | {1 / slowest(devices, 0.05):.1%} | "
            f"{LLAMA.apart / devices / 3600:.1f} | {LLAMA.interval(devices) / 60:.1f} | "
            f"{LLAMA.useful(devices):.2%} | {soon.useful(devices):.2%} |"
        )


def simulate(devices: int, elements: int) -> tuple[int, int]:
    """Count the elements that each device sends, by running a ring's reduce-scatter and all-gather.

    `elements` must be a multiple of `devices`. AssertionError when the sums are not right.
    """
    values = [np.arange(elements) * (device + 1) for device in range(devices)]
    pieces = [list(np.split(value, devices)) for value in values]
    sent = [0, 0]
    for phase in range(2):
        for turn in range(devices - 1):
            first = turn if phase == 0 else turn - 1
            moving = [(d, (d - first) % devices) for d in range(devices)]
            messages = [pieces[d][index].copy() for d, index in moving]
            for (device, index), message in zip(moving, messages, strict=True):
                after = (device + 1) % devices
                pieces[after][index] = message + (pieces[after][index] if phase == 0 else 0)
            sent[phase] += elements // devices
    for mine in pieces:
        assert np.array_equal(np.concatenate(mine), sum(values))
    return sent[0], sent[1]


def table(model: Model, link: Link, *, combined: bool) -> Iterator[str]:
    """Yield the lines of a Markdown table over the numbers of devices."""
    yield (
        "| D | sent MB | AllReduce ms | Reduce ms | in parts ms | state MB AllReduce | "
        "state MB Reduce | parameters MB in parts | busy | busy in parts |"
    )
    yield "|-:|-:|-:|-:|-:|-:|-:|-:|-:|-:|"
    for devices in DEVICES:
        every = all_reduce(model, devices, link, combined=combined)
        sharded = reduce(model, devices, link, combined=combined)
        parts = in_parts(model, devices, link, combined=combined)
        yield (
            f"| {devices} | {every.sent / 1e6:.1f} | {every.seconds * 1e3:.2f} | "
            f"{sharded.seconds * 1e3:.2f} | {parts.seconds * 1e3:.2f} | "
            f"{every.state_bytes / 1e6:.1f} | {sharded.state_bytes / 1e6:.1f} | "
            f"{parts.parameter_bytes / 1e6:.1f} | {efficiency(model, every):.0%} | "
            f"{efficiency(model, parts):.0%} |"
        )


def main() -> None:
    """Print the tables for a model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--parameters", type=float, default=25.6e6, help="default: ResNet-50")
    parser.add_argument("--tensors", type=int, default=161)
    parser.add_argument("--compute-ms", type=float, default=100.0, help="of one step, one device")
    parser.add_argument("--parameter-bytes", type=int, default=4, help="2 for bfloat16 parameters")
    parser.add_argument("--published", action="store_true", help="beside what others measured")
    parser.add_argument("--jobs", action="store_true", help="what slow and lost devices cost")
    options = parser.parse_args()
    if options.published or options.jobs:
        print("\n".join(published() if options.published else jobs()))
        return
    model = Model(
        options.parameters,
        options.tensors,
        options.compute_ms / 1e3,
        parameter_bytes=options.parameter_bytes,
    )
    for combined in (True, False):
        for link in LINKS:
            collectives = "one collective" if combined else f"{model.tensors} collectives"
            print(f"\n{link.name}, {link.latency * 1e6:g} us, {collectives} a phase\n")
            print("\n".join(table(model, link, combined=combined)))


if __name__ == "__main__":
    main()
