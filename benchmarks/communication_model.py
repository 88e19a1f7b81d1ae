"""How communication grows with the number of devices, on paper: AllReduce against Reduce.

    python benchmarks/communication_model.py
    python benchmarks/communication_model.py --parameters 350e6 --tensors 300 --compute-ms 250

A ring moves the gradients of N bytes in D pieces. `AllReduce` sums them everywhere: a
reduce-scatter and an all-gather of gradients. `Reduce` stops after the reduce-scatter, updates the
piece that a device owns, and gathers parameters instead. Nothing here is measured but the bytes of
`simulate`, which moves arrays around a ring and counts; see docs/explanation/communication.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

DEVICES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Link:
    """Between neighbours on the ring: bytes a second, and seconds until the first one arrives."""

    name: str
    bandwidth: float
    latency: float


LINKS = (
    Link("Ethernet 10 Gb/s", 1.25e9, 50e-6),
    Link("Ethernet 100 Gb/s", 12.5e9, 10e-6),
    Link("InfiniBand 400 Gb/s", 50e9, 5e-6),
    Link("NVLink or TPU ICI", 200e9, 2e-6),
)


@dataclass(frozen=True)
class Model:
    """What is trained; `state` is the optimizer's numbers for each parameter (Adam: 2)."""

    parameters: float
    tensors: int
    compute: float
    gradient_bytes: int = 4
    parameter_bytes: int = 4
    state: int = 2


@dataclass(frozen=True)
class Cost:
    """For one device and step."""

    sent: float
    seconds: float
    state_bytes: float


def pass_around(size: float, devices: int, collectives: int, link: Link) -> tuple[float, float]:
    """Bytes sent and seconds of a reduce-scatter or all-gather of `size` bytes on a ring.

    D - 1 rounds of one D-th each; every collective pays the latency of its own rounds.
    """
    sent = (devices - 1) / devices * size
    return sent, sent / link.bandwidth + collectives * (devices - 1) * link.latency


def all_reduce(model: Model, devices: int, link: Link, *, combined: bool = True) -> Cost:
    """Gradients are summed everywhere; every device updates all parameters.

    `combined` counts one collective (XLA combines them), otherwise one for each tensor.
    """
    count = 1 if combined else model.tensors
    half = pass_around(model.parameters * model.gradient_bytes, devices, count, link)
    state = model.parameters * model.state * 4
    return Cost(2 * half[0], 2 * half[1], state)


def reduce(model: Model, devices: int, link: Link, *, combined: bool = True) -> Cost:
    """Each device gets the sum of its piece, updates it, and all gather the parameters."""
    count = 1 if combined else model.tensors
    scatter = pass_around(model.parameters * model.gradient_bytes, devices, count, link)
    gather = pass_around(model.parameters * model.parameter_bytes, devices, count, link)
    state = model.parameters * model.state * 4 / devices
    return Cost(scatter[0] + gather[0], scatter[1] + gather[1], state)


def efficiency(model: Model, cost: Cost) -> float:
    """The share of a step that computes when nothing is hidden behind the computation."""
    return model.compute / (model.compute + cost.seconds)


def simulate(devices: int, elements: int) -> tuple[int, int]:
    """Elements that each device sends in a ring's reduce-scatter and all-gather, by doing them.

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
    """Lines of a Markdown table over the numbers of devices."""
    yield "| D | sent MB | AllReduce ms | Reduce ms | state MB AllReduce | state MB Reduce | busy |"
    yield "|-:|-:|-:|-:|-:|-:|-:|"
    for devices in DEVICES:
        every = all_reduce(model, devices, link, combined=combined)
        sharded = reduce(model, devices, link, combined=combined)
        yield (
            f"| {devices} | {every.sent / 1e6:.1f} | {every.seconds * 1e3:.2f} | "
            f"{sharded.seconds * 1e3:.2f} | {every.state_bytes / 1e6:.1f} | "
            f"{sharded.state_bytes / 1e6:.1f} | {efficiency(model, every):.0%} |"
        )


def main() -> None:
    """Print the tables for a model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--parameters", type=float, default=25.6e6, help="default: ResNet-50")
    parser.add_argument("--tensors", type=int, default=161)
    parser.add_argument("--compute-ms", type=float, default=100.0, help="of one step, one device")
    parser.add_argument("--parameter-bytes", type=int, default=4, help="2 for bfloat16 parameters")
    options = parser.parse_args()
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
