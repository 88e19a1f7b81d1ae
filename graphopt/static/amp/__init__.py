"""Training in half precision (paddle.static.amp)."""

from graphopt.frontend.calls import publish
from graphopt.static.amp import bf16 as bf16
from graphopt.static.amp import decorator as decorator
from graphopt.static.amp import fp16_lists as fp16_lists
from graphopt.static.amp import fp16_utils as fp16_utils
from graphopt.static.amp.decorator import decorate as decorate
from graphopt.static.amp.fp16_lists import AutoMixedPrecisionLists as AutoMixedPrecisionLists
from graphopt.static.amp.fp16_lists import CustomOpLists as CustomOpLists
from graphopt.static.amp.fp16_utils import cast_model_to_fp16 as cast_model_to_fp16
from graphopt.static.amp.fp16_utils import cast_parameters_to_fp16 as cast_parameters_to_fp16
from graphopt.static.amp.fp16_utils import fp16_guard as fp16_guard

publish(globals(), __name__)
