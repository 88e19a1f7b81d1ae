"""How communication grows with the number of devices, on paper: AllReduce, Reduce, in parts.

    python benchmarks/communication_model.py
    python benchmarks/communication_model.py --parameters 350e6 --tensors 300 --compute-ms 250
    python benchmarks/communication_model.py --published

A ring moves the gradients of N bytes in D pieces. `AllReduce` sums them everywhere: a
reduce-scatter and an all-gather of gradients. `Reduce` stops after the reduce-scatter, updates the
piece that a device owns, and gathers parameters instead. With `shard_parameters` they are gathered
twice, before a layer computes forward and backward, and nothing is whole between steps. Nothing
here is measured but the bytes of `simulate`, which moves arrays around a ring and counts; see
docs/explanation/communication.md.
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
# 18 links of NVLink 4 in each direction, as H100 and H200 have them
NVLINK = Link("NVLink 4", 450e9, 2e-6)


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
    parameter_bytes: float


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
    return Cost(2 * half[0], 2 * half[1], state, model.parameters * model.parameter_bytes)


def reduce(model: Model, devices: int, link: Link, *, combined: bool = True) -> Cost:
    """Each device gets the sum of its piece, updates it, and all gather the parameters."""
    count = 1 if combined else model.tensors
    scatter = pass_around(model.parameters * model.gradient_bytes, devices, count, link)
    gather = pass_around(model.parameters * model.parameter_bytes, devices, count, link)
    state = model.parameters * model.state * 4 / devices
    whole = model.parameters * model.parameter_bytes
    return Cost(scatter[0] + gather[0], scatter[1] + gather[1], state, whole)


def in_parts(model: Model, devices: int, link: Link, *, combined: bool = False) -> Cost:
    """`shard_parameters`: as `reduce`, with a second gather; a collective for each tensor.

    The parameters of two tensors, which are whole at a time, are not counted.
    """
    count = 1 if combined else model.tensors
    once = reduce(model, devices, link, combined=combined)
    again = pass_around(model.parameters * model.parameter_bytes, devices, count, link)
    kept = model.parameters * model.parameter_bytes / devices
    return Cost(once.sent + again[0], once.seconds + again[1], once.state_bytes, kept)


def efficiency(model: Model, cost: Cost, *, hidden: bool = False) -> float:
    """The share of a step that computes when nothing is hidden behind the computation, or all."""
    seconds = max(model.compute, cost.seconds) if hidden else model.compute + cost.seconds
    return model.compute / seconds


@dataclass(frozen=True)
class Published:
    """What somebody measured: the efficiency of `devices` as a share of that of one.

    `tokens` of a device and step are an assumption where the source is silent.
    """

    name: str
    parameters: float
    tensors: int
    rate: float
    """Tokens a second of one device."""
    tokens: int
    devices: int
    link: Link
    share: float

    def model(self) -> Model:
        """Bfloat16 parameters, gradients summed as float32."""
        return Model(self.parameters, self.tensors, self.tokens / self.rate, parameter_bytes=2)

    def predicted(self) -> tuple[float, float]:
        """The share with nothing hidden, and with all that computation can hide."""
        model = self.model()
        cost = in_parts(model, self.devices, self.link)
        return efficiency(model, cost), efficiency(model, cost, hidden=True)


# KempnerForge's benchmarks: 7 billion parameters on H200, 57.8 % MFU and 10,471 tokens/s on one
_SEVEN = ("7B, FSDP, H200", 7e9, 32 * 9 + 3, 10471.0)
PUBLISHED = tuple(
    Published(*_SEVEN, tokens, *found)
    for found in ((4, NVLINK, 53.8 / 57.8), (8, LINKS[2], 0.53))
    for tokens in (4096, 8192, 16384)
)


def published() -> Iterator[str]:
    """Lines of a Markdown table: measured by others, and the model's bounds."""
    yield "| what | devices | tokens a step | measured | nothing hidden | all hidden |"
    yield "|---|-:|-:|-:|-:|-:|"
    for each in PUBLISHED:
        least, most = each.predicted()
        yield (
            f"| {each.name}, {each.link.name} | {each.devices} | {each.tokens} | "
            f"{each.share:.0%} | {least:.0%} | {most:.0%} |"
        )


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
    options = parser.parse_args()
    if options.published:
        print("\n".join(published()))
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
