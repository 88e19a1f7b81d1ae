"""Transforms as objects: the base class, their composition, and transforms to arrays.

Paddle pages: paddle.vision.transforms.BaseTransform, Compose, ToTensor, Normalize, Transpose.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphopt.frontend.images.image import Array, check_image, is_pil_image
from graphopt.vision.transforms import functional as F


class Compose:
    """Several transforms, one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, data: Any) -> Any:
        """Apply all transforms in order; a note on an error names the transform that raised it."""
        for transform in self.transforms:
            try:
                data = transform(data)
            except Exception as error:
                error.add_note(f"in the transform {transform} of Compose")
                raise
        return data

    def __repr__(self) -> str:
        lines = "".join(f"\n    {transform}" for transform in self.transforms)
        return f"{type(self).__name__}({lines}\n)"


class BaseTransform:
    """Base of transforms; a subclass has a method `_apply_<key>` per kind of input.

    `keys` names the kinds of the elements of an input tuple: "image", "coords", "boxes", "mask", or
    another name for which the subclass has a method. Elements after the last key pass through.
    `_get_params(inputs)` is called first, and its result is `self.params` in those methods.

    Raises ValueError when `keys` is not a sequence, NotImplementedError for a key without a method.
    """

    params: Any

    def __init__(self, keys: Sequence[str] | None = None) -> None:
        if keys is None:
            keys = ("image",)
        elif not isinstance(keys, Sequence):
            raise ValueError(f"keys should be a sequence, but got keys={keys}")
        for key in keys:
            if self._get_apply(key) is None:
                raise NotImplementedError(f"{key} is unsupported data structure")
        self.keys = keys
        self.params = None

    def _get_params(self, inputs: tuple[Any, ...]) -> Any:
        """Compute parameters that the methods of one call share, such as random numbers."""

    def __call__(self, inputs: Any) -> Any:
        """Transform an input, or each element of a tuple."""
        if not isinstance(inputs, tuple):
            inputs = (inputs,)
        self.params = self._get_params(inputs)
        outputs = list(inputs)
        for index, key in enumerate(self.keys[: len(inputs)]):
            apply = self._get_apply(key)
            if apply is not None:
                outputs[index] = apply(inputs[index])
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _get_apply(self, key: str) -> Callable[[Any], Any] | None:
        return getattr(self, f"_apply_{key}", None)

    def _apply_image(self, image: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not transform images")

    def _apply_boxes(self, boxes: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not transform boxes")

    def _apply_mask(self, mask: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not transform masks")


class ToTensor(BaseTransform):
    """The image as an array to feed; see `to_tensor`."""

    def __init__(self, data_format: str = "CHW", keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, image: Any) -> Array:
        return F.to_tensor(image, self.data_format)


class Normalize(BaseTransform):
    """(img - mean) / std; a single number stands for three equal channels. See `normalize`."""

    def __init__(
        self,
        mean: Any = 0.0,
        std: Any = 1.0,
        data_format: str = "CHW",
        to_rgb: bool = False,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.mean = [mean] * 3 if isinstance(mean, numbers.Number) else mean
        self.std = [std] * 3 if isinstance(std, numbers.Number) else std
        self.data_format = data_format
        self.to_rgb = to_rgb

    def _apply_image(self, image: Any) -> Array:
        return F.normalize(image, self.mean, self.std, self.data_format, self.to_rgb)


class Transpose(BaseTransform):
    """The image as an array with its axes in another order; (H, W) counts as (H, W, 1)."""

    def __init__(self, order: Sequence[int] = (2, 0, 1), keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.order = order

    def _apply_image(self, image: Any) -> Array:
        check_image(image, "Transpose")
        array = np.asarray(image) if is_pil_image(image) else image
        array = array[..., np.newaxis] if array.ndim == 2 else array
        return array.transpose(self.order)
