"""The lists of operators under the names of paddle.static.amp.fp16_lists."""

from graphopt.frontend.mixed_precision.lists import ALSO_WHITE, BLACK, GRAY, WHITE
from graphopt.frontend.mixed_precision.lists import (
    AutoMixedPrecisionLists as AutoMixedPrecisionLists,
)

CustomOpLists = AutoMixedPrecisionLists
white_list = set(WHITE | ALSO_WHITE)
black_list = set(BLACK)
gray_list = set(GRAY)
