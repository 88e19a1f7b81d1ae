"""The library that computes products and convolutions on CPUs, where oneDNN is quicker than XLA.

The rules come from measurements on x86 with the oneDNN of jaxlib 0.10. XLA computes products as
quickly, unless their left operand is transposed, as in the gradient of the right operand: then
oneDNN takes 0.5 to 0.7 of the time, for sums of 256 terms or more. In bfloat16 all products take
half, where the processor has instructions for it. Convolutions take 0.75 to 0.9 of the time, and so
do their gradients of images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.differentiated import differentiated_ops
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.conv import Conv2d, filter_sizes, is_channels_last, spatial_sizes
from graphopt.ir.dialect.ops.fused import FusedConv2dAddAct, FusedGemmEpilogue
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.transformer import FusedAttention, FusedFeedforward
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, product, shape_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, change

ONEDNN = "onednn"
# a form: a kind of op and of operand layout for which oneDNN is configured
PRODUCT, BATCHED, HALF, CONVOLUTION, EPILOGUE = FORMS = (
    *("product", "batched", "half"),
    *("convolution", "epilogue"),
)
# with fewer terms in each sum, or a thinner matrix, XLA is as fast
TERMS, SIDE = 256, 16
# the fewest elements of a result matrix: below, the call costs more than it saves
ELEMENTS = 32 * 32
# the fewest terms of a sum, the fewest filters, and the most positions of a filter
MET, CHANNELS, POSITIONS = 64, 16, 7 * 7
# the fewest positions of the result for filters that are not packed: they are packed in each step,
# which takes longer than the kernel saves at fewer positions
PLACES = 400
# algorithms that, beside a kernel, are only used for the gradient of the filter
OF_FILTER = ("rows", "patches")
BATCH = 8
"""The assumed size of an unknown batch."""

NOT_TRAINED = Reason(
    "not-trained",
    "XLA is as fast for a product that is not trained, with no transposed left operand",
)
BOTH_TRANSPOSED = Reason("both-transposed", "both operands of the product are transposed")
BATCHES = Reason(
    "batches",
    "kernels multiply two equal batches of matrices, or an untransposed batch by one matrix",
)
DTYPE = Reason(
    "kernel-dtype", "the dtype is not one that the kernels of oneDNN support: float32 or bfloat16"
)
LAYER_DTYPE = Reason("layer-dtype", "kernels compute the products of a fused layer in float32 only")
HALF_IMAGES = Reason(
    "half-images", "kernels were not measured for convolutions in bfloat16 and float16"
)
CHANNELS_FIRST = Reason("channels-first", "the images do not have the channels last")
OWN_ALGORITHM = Reason("own-algorithm", "the convolution already has a faster algorithm")
OF_ONE_CHANNEL = Reason("one-channel", "the groups of the convolution have one channel each")
FEW_PLACES = Reason("few-places", "packing the filter would take longer than the kernel saves")
FEW_TERMS = Reason(
    "few-terms", "the sums are too short, or the matrices too thin, for a kernel to pay"
)


@dataclass(frozen=True)
class ChooseKernel(RewritePass):
    """Let oneDNN compute products and convolutions that it computes quicker than XLA on CPUs.

    `forms` are the forms of kernels that were tried on this machine; `why` is the reason why others
    were not. `rows` stands for sizes that are not known. `packs` is true if filters are laid out
    for the kernels ahead of the steps.
    """

    name = "choose-kernel"
    numerics = Numerics.REASSOCIATING
    forms: tuple[str, ...] = FORMS
    why: str = "it was not tried on this machine"
    rows: int = BATCH
    packs: bool = False

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, trained = RewriteLog(self.name, self.numerics), differentiated_ops(module)
        for op in list(module.walk()):
            rule = _RULES.get(type(op))
            if rule is None or not isinstance(op, PdOp) or op.attr("kernel"):
                continue
            found = rule(op, op in trained, self.rows)
            if found is FEW_PLACES and self.packs:
                found = EPILOGUE
            if isinstance(found, str) and found not in self.forms:
                text = f"the kernel of oneDNN for '{found}' is not used: {self.why}"
                found = Reason("no-kernel", text)
            if isinstance(found, Reason):
                log.declined(op, found)
            else:
                change(op, {"kernel": ONEDNN, **_without_own(op)}, log)
        return log.outcomes


def _of_product(op: PdOp, trained: bool, unknown: int) -> str | Reason:
    """Choose the form of a product, or return the reason to leave it to XLA."""
    dtype = f"{dtype_of(op.operands[0].type)}"
    if dtype not in ("float32", "bfloat16"):
        return DTYPE
    x, y = (shape_of(value.type) for value in op.operands[:2])
    left, right = op.attr("transpose_x"), op.attr("transpose_y")
    if left and right:
        return BOTH_TRANSPOSED
    one = len(y) == 2 and (len(x) == 2 or (len(x) > 2 and not left))
    if not one and (len(y) < 3 or x[:-2] != y[:-2]):
        return BATCHES
    if dtype == "float32" and not (left or trained):
        return NOT_TRAINED
    terms, rows, columns = _product_sizes(x, y, unknown, left=left, right=right, one=one)
    if dtype == "bfloat16" and not (trained or left):
        terms, rows = rows, terms  # x y, which sums no rows
    if terms < (TERMS if one else SIDE) or min(rows, columns) < SIDE or rows * columns < ELEMENTS:
        return FEW_TERMS
    if dtype == "bfloat16":
        return HALF
    return PRODUCT if one else BATCHED


def _product_sizes(
    x: tuple[int, ...], y: tuple[int, ...], unknown: int, *, left: bool, right: bool, one: bool
) -> tuple[int, int, int]:
    """Return the terms, rows and columns of the product whose left operand is transposed."""
    # of x^T y forward if x is transposed, and otherwise of the gradient of y
    sums = x[-2:-1] if left or not one else x[:-1]
    columns = y[-2] if right else y[-1]
    known = [unknown if size == UNKNOWN else size for size in (*sums, x[-1], columns)]
    return product(known[:-2]), known[-2], known[-1]


def _of_layer(op: PdOp, trained: bool, unknown: int) -> str | Reason:
    """Choose the form of a fused layer's products with its weights, if all are large enough."""
    assert isinstance(op, (FusedAttention, FusedFeedforward))
    if dtype_of(op.x.type) != "float32":
        return LAYER_DTYPE
    if not trained:
        return NOT_TRAINED
    if isinstance(op, FusedFeedforward):
        weights = [op.linear1_weight, op.linear2_weight]
    else:
        weights = [*op.qkv_weight, op.linear_weight]
    rows = shape_of(op.x.type)[:-1]
    for weight in weights:
        own = shape_of(weight.type)
        given = _product_sizes((*rows, own[0]), own, unknown, left=False, right=False, one=True)
        terms, *sides = given
        if terms < TERMS or min(sides) < SIDE or product(sides) < ELEMENTS:
            return FEW_TERMS
    return PRODUCT


def _of_convolution(op: PdOp, trained: bool, unknown: int) -> str | Reason:
    """Choose the form of a convolution of images, or return the reason to leave it to XLA."""
    dtype = f"{dtype_of(op.operands[0].type)}"
    if dtype != "float32":
        return HALF_IMAGES if dtype in ("bfloat16", "float16") else DTYPE
    if op.attr("algorithm") == "matmul" and trained:
        return _of_pixels(op, unknown)
    if op.attr("algorithm") not in ("", "groups", *OF_FILTER):
        return OWN_ALGORITHM
    if not is_channels_last(op.attr("data_format")):
        return CHANNELS_FIRST
    outs, own, *kernel = filter_sizes(shape_of(op.operands[1].type), op.attr("filter_format"))
    positions = product(kernel)
    if op.attr("groups") > 1 and own == 1:
        return OF_ONE_CHANNEL
    if positions > POSITIONS or outs < CHANNELS or own * positions < MET:
        return FEW_TERMS
    return CONVOLUTION


def _of_pixels(op: PdOp, unknown: int) -> str | Reason:
    """Choose the form of a trained filter of one position, whose gradient is a matrix product."""
    outs, own, *_ = filter_sizes(shape_of(op.operands[1].type), op.attr("filter_format"))
    batch, *others = shape_of(op.results[0].type)
    places = spatial_sizes((batch, *others), op.attr("data_format"))
    terms = product([unknown if size == UNKNOWN else size for size in (batch, *places)])
    return PRODUCT if terms >= TERMS and min(outs, own) >= SIDE else FEW_TERMS


def _of_sum(op: PdOp, trained: bool, unknown: int) -> str | Reason:
    """Choose the form of a convolution with an epilogue, or return the reason against it."""
    dtype = f"{dtype_of(op.operands[0].type)}"
    if dtype != "float32":
        return HALF_IMAGES if dtype in ("bfloat16", "float16") else DTYPE
    if trained and op.attr("algorithm") not in ("", *OF_FILTER):
        return OWN_ALGORITHM
    outs, own, *kernel = filter_sizes(shape_of(op.operands[1].type), op.attr("filter_format"))
    positions = product(kernel)
    if positions > POSITIONS or outs < CHANNELS or own * positions < MET:
        return FEW_TERMS
    batch, *places, _ = shape_of(op.results[0].type)
    known = [unknown if size == UNKNOWN else size for size in (batch, *places)]
    return FEW_PLACES if product(known) < PLACES else EPILOGUE


def _without_own(op: PdOp) -> dict[str, str]:
    """Clear the algorithm of a fused convolution, unless it is for the filter's gradient."""
    own = isinstance(op, FusedConv2dAddAct) and op.attr("algorithm") not in ("", *OF_FILTER)
    return {"algorithm": ""} if own else {}


_RULES: Mapping[type, Callable[[PdOp, bool, int], str | Reason]] = {
    Matmul: _of_product,
    FusedGemmEpilogue: _of_product,
    FusedAttention: _of_layer,
    FusedFeedforward: _of_layer,
    Conv2d: _of_convolution,
    FusedConv2dAddAct: _of_sum,
}
