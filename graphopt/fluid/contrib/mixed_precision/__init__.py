"""Training in half precision (paddle.fluid.contrib.mixed_precision)."""

from graphopt.fluid.contrib.mixed_precision import decorator as decorator
from graphopt.fluid.contrib.mixed_precision.decorator import decorate as decorate
from graphopt.frontend.calls import publish
from graphopt.frontend.mixed_precision.lists import (
    AutoMixedPrecisionListsFluid as AutoMixedPrecisionLists,
)
from graphopt.static.amp import bf16 as bf16
from graphopt.static.amp.bf16 import decorate_bf16 as decorate_bf16

CustomOpLists = AutoMixedPrecisionLists

publish(globals(), __name__)
