"""Padded images: their sizes after windows and scaling, and unsupported ops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphopt.debug.compare import run_module
from graphopt.ir.dialect.context import parse_text
from graphopt.passes.padding.dims import Axes, CannotPad, Dim, Extent, scale_dim, windows
from graphopt.passes.padding.mask import mask_padding
from graphopt.passes.padding.masked import mask_name
from graphopt.runtime.feeds.padded_rows import cut, mask_of, misfit, rows_of

STEPS = [
    ("window", extra, stride) for extra, stride in ((0, 1), (1, 2), (-2, 1), (2, 3), (4, 4))
] + [("scale", factor, constant) for factor, constant in ((2, 0), (3, 1), (4, -2))]


def test_extents_are_the_sizes() -> None:
    """Windows of windows of scaled images have the size of their extent."""
    for steps in itertools.product(STEPS, repeat=3):
        dim: Dim = ("h",)
        try:
            for kind, one, other in steps:
                dim = windows(dim, one, other) if kind == "window" else scale_dim(dim, one, other)
        except CannotPad as error:
            assert error.reason.name == "window-of-scaled"
            assert any(kind == "scale" for kind, *_ in steps)
            continue
        for size in range(1, 40):
            found = size
            for kind, one, other in steps:
                found = (found + one) // other if kind == "window" else found * one + other
            assert rows_of(dim[0], {"h": (size, size)})[0] == found, (steps, size)


def test_equal_sizes_have_one_form() -> None:
    """Images whose size does not change keep their dimension."""
    assert windows(("h",), 0, 1) == ("h",)
    assert windows(("h",), 1, 2) == windows(("h",), 1, 2) == (Extent("h", 1, 2),)
    assert windows(scale_dim(("h",), 4, 0), 1, 2) == scale_dim(("h",), 2, 0)
    assert str(windows(windows(("h",), 1, 2), 1, 2)[0]) == "(h+3)//4"
    assert str(scale_dim(windows(("h",), 1, 2), 2, 3)[0]) == "(h+1)//2*2+3"


HEAD = """func.func @main(
  feed %x: tensor<1x2x?x8xf32>,
  state %w: tensor<2x2x3x3xf32>,
  state %v: tensor<2x2x1x1xf32>
) -> (fetch "y": TYPE) {"""
NETS = {
    "convolutions": """
  %a = pd.conv2d(%x, %w) {paddings = [1, 1], strides = [2, 2]}
  %b = pd.relu(%a)
  %c = pd.conv2d(%b, %w) {paddings = [2, 2], dilations = [2, 2]}
  %y = pd.add(%c, %b)
  func.return %y : tensor<1x2x?x4xf32>""",
    "pools": """
  %a = pd.pool2d(%x) {kernel_size = [3, 3], paddings = [1, 1], strides = [2, 2]}
  %y = pd.pool2d(%a) {kernel_size = [2, 2], pooling_type = "avg", strides = [1, 1]}
  func.return %y : tensor<1x2x?x3xf32>""",
    "squeeze and excite": """
  %a = pd.conv2d(%x, %w) {paddings = [1, 1], strides = [2, 2]}
  %b = pd.pool2d(%a) {adaptive = true, kernel_size = [1, 1], pooling_type = "avg"}
  %c = pd.conv2d(%b, %v)
  %y = pd.multiply(%a, %c)
  func.return %y : tensor<1x2x?x4xf32>""",
    "up again": """
  %a = pd.conv2d(%x, %w) {paddings = [1, 1], strides = [2, 2]}
  %b = pd.interpolate(%a) {align_corners = false, mode = "linear", align_mode = 0, scale = [2.0]}
  %c = pd.conv2d_transpose(%a, %w) {strides = [2, 2], paddings = [1, 1], output_padding = [1, 1]}
  %d = pd.add(%b, %c)
  %y = pd.add(%d, %x)
  func.return %y : tensor<1x2x?x8xf32>""",
}


def padded_run(text: str, size: int, room: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the result on images of this height, the padded result, and the misfit."""
    rng = np.random.default_rng(size)
    rows = {"h": (size, size + room)}
    image = rng.normal(size=(1, 2, size, 8)).astype("float32")
    state = {
        "w": rng.normal(size=(2, 2, 3, 3)).astype("float32"),
        "v": rng.normal(size=(2, 2, 1, 1)).astype("float32"),
    }
    plain = run_module(parse_text(text), {"x": image, **state})
    module = parse_text(text)
    axes: Axes = (None, None, ("h",), None)
    masked = mask_padding(module, {"x": axes})
    module.verify()
    tall = np.pad(image, ((0, 0), (0, 0), (0, room), (0, 0)), mode="edge")
    masks = {mask_name(dim): mask_of(dim, rows) for dim in masked.masks}
    counts = {
        f"{'*'.join(map(str, dim))}@count": np.array(rows_of(dim[0], rows)[0])
        for dim in masked.counts
    }
    found = run_module(module, {"x": tall, **masks, **counts, **state})
    (name,) = found
    return plain[name], cut(found[name], masked.fetches["y"], rows), misfit(masked, rows)


@pytest.mark.every(5)
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize(("size", "room"), [(8, 4), (10, 2), (12, 6)])
def test_networks_of_images(net: str, size: int, room: int) -> None:
    body = NETS[net]
    text = HEAD.replace("TYPE", body.rpartition(" : ")[2]) + body + "\n}"
    expected, found, reason = padded_run(text, size, room)
    assert not reason
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_images_that_meet_must_have_one_size() -> None:
    """An odd height changes when scaled down and up: the run reports it before padding."""
    body = NETS["up again"]
    module = parse_text(HEAD.replace("TYPE", "tensor<1x2x?x8xf32>") + body + "\n}")
    masked = mask_padding(module, {"x": (None, None, ("h",), None)})
    assert not misfit(masked, {"h": (8, 12)})
    assert misfit(masked, {"h": (7, 12)}).startswith("sizes-disagree: ")
    assert misfit(masked, {"h": (8, 13)}).startswith("sizes-disagree: ")


def test_images_may_be_too_small() -> None:
    """Images that are an error without padding are one with padding, too."""
    text = HEAD.replace("TYPE", "tensor<1x2x?x6xf32>") + (
        "\n  %y = pd.conv2d(%x, %w)\n  func.return %y : tensor<1x2x?x6xf32>\n}"
    )
    masked = mask_padding(parse_text(text), {"x": (None, None, ("h",), None)})
    assert misfit(masked, {"h": (2, 8)}) == "too-small: (h-2) is 0"
    assert not misfit(masked, {"h": (3, 8)})


REFUSED = {
    "padding-by-size": (
        'pd.conv2d(%x, %w) {padding_algorithm = "SAME", strides = [2, 2]}',
        "1x2x?x4",
    ),
    "windows-by-size": ("pd.pool2d(%x) {adaptive = true, kernel_size = [2, 2]}", "1x2x2x2"),
    "counts-rows": (
        'pd.pool2d(%x) {kernel_size = [3, 3], paddings = [1, 1], pooling_type = "avg"}',
        "1x2x?x8",
    ),
    "empty-window": (
        "pd.pool2d(%x) {ceil_mode = true, kernel_size = [1, 1], strides = [3, 3]}",
        "1x2x?x4",
    ),
    "fixed-size": ("pd.interpolate(%x) {size = [4, 4], align_corners = false}", "1x2x4x4"),
    "scale-rounds": ("pd.interpolate(%x) {scale = [1.5], align_corners = false}", "1x2x?x12"),
    "scale-by-size": ("pd.interpolate(%x) {scale = [2.0], align_corners = true}", "1x2x?x16"),
    "unknown-window": ("pd.conv2d(%x, %u)", "1x2x?x6"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals(reason: str) -> None:
    op, shape = REFUSED[reason]
    text = f"""func.func @main(
  feed %x: tensor<1x2x?x8xf32>,
  feed %u: tensor<2x2x?x3xf32>,
  state %w: tensor<2x2x3x3xf32>
) -> (fetch "y": tensor<{shape}xf32>) {{
  %y = {op}
  func.return %y : tensor<{shape}xf32>
}}"""
    with pytest.raises(CannotPad) as caught:
        mask_padding(parse_text(text), {"x": (None, None, ("h",), None)})
    assert caught.value.reason.name == reason
