"""Layers of Paddle 1.8 on images of open height and width, with numbers of 1.8.5."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt_tests.frontend.test_fluid import fresh

layers = fluid.layers
Arrays = list[Any]


def images(name: str = "x") -> Any:
    """Declare images that have gradients."""
    x = fluid.data(name, [None, 3, None, None])
    x.stop_gradient = False
    return x


def sums(arrays: Arrays) -> list[float]:
    return [round(float(np.abs(np.array(array)).sum()), 3) for array in arrays]


def rows(*shape: int) -> Any:
    return np.random.RandomState(0).rand(*shape).astype("float32")


def test_images_are_resized_by_a_scale() -> None:
    with fresh() as main:
        x = images()
        made = [layers.resize_nearest(x, scale=2.0), layers.resize_bilinear(x, scale=1.5)]
        (back,) = fluid.gradients(layers.mean(made[1]), x)
        exe = fluid.Executor()
        assert [tuple(image.shape) for image in made] == [(-1, 3, -1, -1)] * 2
        found = exe.run(main, {"x": rows(2, 3, 4, 6)}, [*made, back])
        assert sums(found) == [289.197, 162.285, 1.0]
        found = exe.run(main, {"x": rows(2, 3, 5, 7)}, [*made, back])
    assert [image.shape for image in found] == [(2, 3, 10, 14), (2, 3, 7, 10), (2, 3, 5, 7)]
    assert sums(found) == [417.245, 209.913, 1.0]


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (4, 6, [16856.0, 57.6, 210.221, 57.6, 240.0]),
        (5, 7, [28650.0, 84.0, 297.781, 84.0, 350.0]),
        (8, 12, [125488.0, 230.4, 786.221, 230.4, 960.0]),
    ],
)
def test_boxes_at_the_pixels_of_a_map(height: int, width: int, expected: list[float]) -> None:
    with fresh() as main:
        x, image = images(), images("image")
        boxes = [
            *layers.anchor_generator(x, [32.0, 64.0], [0.5, 1.0], stride=[16.0, 16.0]),
            *layers.prior_box(x, image, [10.0], [20.0], [2.0], flip=True),
            layers.density_prior_box(x, image, [2, 1], [8.0, 16.0], [1.0], flatten_to_2d=True)[0],
        ]
        feed = {"x": rows(2, 3, height, width), "image": rows(2, 3, 4 * height, 4 * width)}
        found = fluid.Executor().run(main, feed, boxes)
    assert found[0].shape == (height, width, 4, 4) and found[4].shape == (height * width * 5, 4)
    assert sums(found) == expected


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("height", "expected"),
    [
        (4, [288.0, 74.113, 72.299, 1.524, 3.376, 0.527]),
        (8, [576.0, 122.155, 144.767, 1.485, 3.279, 0.442]),
    ],
)
def test_shapes_of_other_tensors(height: int, expected: list[float]) -> None:
    """Values are broadcast, repeated or reshaped to another tensor's shape."""
    with fresh() as main:
        x, y = images(), images("y")
        number = layers.fill_constant([1, 1, 1, 1], "float32", 2.0)
        broadcast, repeated = layers.expand_as(number, x), layers.expand_as(y, x)
        both = layers.slice(layers.shape(x), [0], [0], [2])
        wanted = layers.concat([both, layers.fill_constant([1], "int32", -1)])
        flat = layers.reshape(x, [0, 0, -1], actual_shape=wanted)
        loss = layers.mean(broadcast * x) + layers.mean(repeated * repeated * x)
        loss = loss + layers.mean(flat * flat)
        gradients = fluid.gradients(loss, [x, y])
        numbers = np.random.RandomState(0)
        feed = {
            "x": numbers.rand(2, 3, height, 6).astype("float32"),
            "y": numbers.rand(1, 3, 4, 3).astype("float32"),
        }
        outs = [broadcast, repeated, flat, loss, *gradients]
        found = fluid.Executor().run(main, feed, outs)
    assert sums(found) == expected


@pytest.mark.parametrize("sizes", [(None, None), (4, 6)])
def test_boxes_of_yolo(sizes: tuple[int | None, int | None]) -> None:
    with fresh() as main:
        x, image = fluid.data("x", [None, 14, *sizes]), fluid.data("image", [None, 2], "int32")
        made = layers.yolo_box(x, image, [10, 13, 16, 30], 2, 0.3, 32, scale_x_y=1.05)
        numbers = np.random.RandomState(0).randn(2, 14, 4, 6).astype("float32")
        feed = {"x": numbers, "image": np.array([[100, 120], [90, 130]], "int32")}
        found = fluid.Executor().run(main, feed, made)
    assert [array.shape for array in found] == [(2, 48, 4), (2, 48, 2)]
    assert sums(found) == [21128.434, 44.651]


def test_images_are_resized_as_tensors_say() -> None:
    """Tensors give the size, by another shape, a size or a scale; the channels stay known."""
    with fresh() as main:
        x, y = images(), fluid.data("y", [None, 5, None, None])
        wanted = layers.cast(layers.slice(layers.shape(y), [0], [2], [4]), "int32")
        size, scale = fluid.data("size", [2], "int32"), fluid.data("scale", [1])
        made = [
            layers.resize_bilinear(x, scale=2, out_shape=wanted),
            layers.resize_nearest(x, out_shape=size),
            layers.resize_nearest(x, scale=scale),
        ]
        assert [tuple(image.shape) for image in made] == [(-1, 3, -1, -1)] * 3
        feed = {"x": rows(2, 3, 4, 5), "y": np.zeros((2, 5, 7, 9), "float32")}
        feed |= {"size": np.array([3, 6], "int32"), "scale": np.array([1.5], "float32")}
        found = fluid.Executor().run(main, feed, made)
    assert [image.shape[2:] for image in found] == [(7, 9), (3, 6), (6, 7)]
    assert sums(found) == [191.515, 53.889, 130.461]
