"""paddle.vision.transforms: Pillow images, arrays with OpenCV's numbers, arguments, randomness."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import graphopt as paddle
import graphopt.vision.transforms as T
from graphopt.errors import UnsupportedError

RAMP = (np.arange(60).reshape(4, 5, 3) * 7 % 256).astype(np.uint8)
PIXELS = np.array([[10, 200, 30], [90, 60, 250]], np.uint8)


def test_to_tensor_gives_an_array_to_feed():
    for image in (RAMP, Image.fromarray(RAMP)):
        array = T.ToTensor()(image)
        assert type(array) is np.ndarray
        assert array.dtype == np.float32 and array.shape == (3, 4, 5)
        np.testing.assert_array_equal(array, RAMP.transpose(2, 0, 1).astype(np.float32) / 255)
    assert T.to_tensor(PIXELS, "HWC").shape == (2, 3, 1)
    assert T.to_tensor(np.ones((2, 2), np.int64)).dtype == np.int64


@pytest.mark.parametrize(
    ("size", "interpolation", "expected"),
    [
        ((3, 2), "nearest", [[10, 200], [10, 200], [90, 60]]),
        ((3, 2), "bilinear", [[57, 72], [70, 138], [82, 202]]),
        ((3, 2), "area", [[73, 87], [76, 137], [80, 187]]),
        ((1, 3), "area", [[50, 130, 140]]),
    ],
)
def test_arrays_are_resized_as_opencv_does(
    size: tuple[int, int], interpolation: str, expected: list[list[int]]
):
    np.testing.assert_array_equal(T.resize(PIXELS, size, interpolation), expected)


def test_shorter_side():
    assert T.resize(RAMP, 8).shape == (8, 10, 3)
    assert T.resize(Image.fromarray(RAMP), 8).size == (10, 8)
    assert T.resize(RAMP, 4) is RAMP


def test_right_angles_only_move_pixels():
    np.testing.assert_array_equal(T.rotate(RAMP, 180, center=(2, 1.5)), RAMP[::-1, ::-1])
    pillow = np.asarray(T.rotate(Image.fromarray(RAMP), 90, expand=True))
    np.testing.assert_array_equal(pillow, np.rot90(RAMP))
    np.testing.assert_array_equal(T.hflip(T.vflip(RAMP)), RAMP[::-1, ::-1])


def test_colours_of_arrays():
    np.testing.assert_array_equal(T.to_grayscale(RAMP)[0, :2, 0], [6, 27])
    np.testing.assert_array_equal(T.adjust_brightness(PIXELS, 2)[0], [20, 255, 60])
    np.testing.assert_array_equal(T.adjust_contrast(PIXELS, 0), np.full((2, 3), 74))
    greys = np.repeat(PIXELS[..., None], 3, -1)
    np.testing.assert_array_equal(T.adjust_hue(greys, 0.3), greys)
    with pytest.raises(ValueError, match="not in"):
        T.adjust_hue(RAMP, 0.6)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_padding_is_the_same_for_both_kinds(mode: str):
    pillow = np.asarray(T.pad(Image.fromarray(RAMP), (1, 2, 3, 0), (5, 6, 7), mode))
    np.testing.assert_array_equal(T.pad(RAMP, (1, 2, 3, 0), (5, 6, 7), mode), pillow)


def test_random_transforms_draw_from_python_and_numpy():
    def draw() -> list[np.ndarray]:
        random.seed(1)
        np.random.seed(2)
        chain = T.Compose(
            [
                T.RandomResizedCrop(6),
                T.RandomHorizontalFlip(),
                T.RandomRotation(20),
                T.ColorJitter(0.4, 0.4, 0.4, 0.1),
                T.RandomErasing(1.0, value="random"),
                T.RandomAffine(10, (0.1, 0.1), (0.8, 1.2), 5),
                T.RandomPerspective(1.0),
                T.RandomCrop(4),
                T.Normalize(127.5, 127.5, "HWC"),
                T.Transpose(),
            ]
        )
        return [chain(RAMP), chain(RAMP)]

    first, second = draw(), draw()
    np.testing.assert_array_equal(first[0], second[0])
    assert first[0].shape == (3, 4, 4) and first[0].dtype == np.float32
    assert not np.array_equal(first[0], first[1])


def test_keys_choose_what_is_transformed():
    class Shift(T.BaseTransform):
        def _apply_image(self, image: np.ndarray) -> np.ndarray:
            return image + 1

        def _apply_boxes(self, boxes: np.ndarray) -> np.ndarray:
            return boxes + 10

    shift = Shift(keys=("image", "boxes"))
    image, boxes, label = shift((np.zeros(1), np.zeros(1), "cat"))
    assert (image[0], boxes[0], label) == (1, 10, "cat")
    with pytest.raises(NotImplementedError, match="foo"):
        T.Resize(3, keys=("foo",))
    with pytest.raises(ValueError, match="sequence"):
        T.Resize(3, keys=3)  # pyright: ignore[reportArgumentType]


def test_bad_arguments():
    with pytest.raises(TypeError, match="dim=4"):
        T.resize(np.zeros((1, 2, 3, 4)), 3)
    with pytest.raises(TypeError, match="dtype int64"):
        T.resize(np.zeros((2, 3), np.int64), (4, 4))
    with pytest.raises(ValueError, match="3 element tuple"):
        T.pad(RAMP, (1, 2, 3))
    with pytest.raises(ValueError, match="smaller than the crop"):
        T.RandomCrop(9)(RAMP)
    with pytest.raises(ValueError, match="non negative"):
        T.BrightnessTransform(-1)
    with pytest.raises(AssertionError):
        T.Resize((1, 2, 3))
    with paddle.static.program_guard(paddle.static.Program()):
        image = paddle.static.data("image", [3, 4, 5], "float32")
        with pytest.raises(UnsupportedError, match="feed the result"):
            T.hflip(image)


def test_arrays_do_not_need_pillow():
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "import numpy as np, graphopt.vision.transforms as T\n"
        "print(T.Compose([T.Resize(3), T.ToTensor()])(np.zeros((4, 4, 3), 'uint8')).shape)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "(3, 3, 3)"
