"""The ops that fusions build: several ops in one, each differentiated as a whole.

`act_attrs` are properties of the activation's op, where they are not its defaults.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import dictionary, flag, integers, number, string, strings
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import Binary, OpaqueOp
from graphopt.ir.dialect.ops.conv import Conv2d, filter_sizes
from graphopt.ir.dialect.ops.linear import check_kernel, matmul_type
from graphopt.ir.dialect.ops.norm import BatchNormBase, check_vector
from graphopt.ir.dialect.types import TENSOR, UNKNOWN, Tensor, compatible, like, shape_of, show


@irdl_op_definition
class FusedGemmEpilogue(OpaqueOp):
    """activation(matmul(x, y) + bias). Paddle: fused_gemm_epilogue."""

    name = "pd.fused_gemm_epilogue"
    x = operand_def(TENSOR)
    y = operand_def(TENSOR)
    bias = operand_def(TENSOR)
    out = result_def(TENSOR)
    transpose_x = flag(False)
    transpose_y = flag(False)
    activation = string("none", of=("none", "relu"))
    approximate = flag(False)
    act_attrs = dictionary({})
    kernel = string("")

    @staticmethod
    def infer(
        x: Tensor,
        y: Tensor,
        bias: Tensor,
        transpose_x: bool,
        transpose_y: bool,
        kernel: str = "",
    ) -> Tensor:
        check_kernel(kernel)
        out = matmul_type(x, y, transpose_x, transpose_y)
        check_vector("bias", bias, shape_of(out)[-1])
        return out


PACKED = "packed"
"""A filter format: [out / block, height, width, in, block], the last block padded by zeros."""


@irdl_op_definition
class FusedConv2dAddAct(OpaqueOp):
    """activation(conv2d(input, filter) + bias + residual) of images with the channels last.

    `bias` has a number for each channel, as [channels] or [1, 1, 1, channels]; `residual` is shaped
    like the result. `activation` is relu or none. `algorithm`, `filter_format` and `kernel` are as
    for conv2d; filters may also be in the `PACKED` format, which a kernel reads.

    Paddle: fused_conv2d_add_act.
    """

    name = "pd.fused_conv2d_add_act"
    input = operand_def(TENSOR)
    filter = operand_def(TENSOR)
    bias = operand_def(TENSOR)
    residual = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    strides = integers((1, 1))
    paddings = integers((0, 0))
    padding_algorithm = string("EXPLICIT", of=("EXPLICIT", "SAME", "VALID"))
    dilations = integers((1, 1))
    algorithm = string("")
    filter_format = string("OIHW")
    kernel = string("")
    activation = string("none", of=("none", "relu"))

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        input: Tensor,
        filter: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        strides: Sequence[int],
        paddings: Sequence[int],
        padding_algorithm: str,
        dilations: Sequence[int],
        algorithm: str = "",
        filter_format: str = "OIHW",
        kernel: str = "",
        activation: str = "none",
    ) -> Tensor:
        *others, channels = shape_of(bias) or (0, 0)
        if len(others) not in (0, 3) or not {*others} <= {1, UNKNOWN}:
            raise ProgramError(f"the bias should have a number for each channel, not {show(bias)}")
        if activation not in ("none", "relu"):
            raise ProgramError(f"activation must be 'relu' or 'none', found '{activation}'")
        if filter_format == PACKED:
            filter = like(filter, shape=unpacked_sizes(shape_of(filter), channels))
        sizes = filter_sizes(shape_of(filter), "HWIO" if filter_format == PACKED else filter_format)
        if len(sizes) != 4:
            raise ProgramError(f"filters of images have rank 4, found {show(filter)}")
        if UNKNOWN not in (sizes[0], channels) and sizes[0] != channels:
            raise ProgramError(f"{sizes[0]} filters have a bias of {channels} numbers")
        out = Conv2d.infer(
            *(input, filter, strides, paddings, padding_algorithm, dilations),
            groups=1,
            data_format="NHWC",
            algorithm=algorithm,
            filter_format="HWIO" if filter_format == PACKED else filter_format,
            kernel=kernel,
        )
        if residual is not None and not compatible(out, residual):
            raise ProgramError(f"the residual is {show(residual)}, the result {show(out)}")
        return out


def unpacked_sizes(packed: Sequence[int], outs: int) -> tuple[int, ...]:
    """Return the sizes [height, width, in, out] of filters in the `PACKED` format."""
    known = len(packed) == 5 and UNKNOWN not in (packed[0], packed[4], outs)
    if len(packed) != 5 or not packed[4] or (known and packed[0] != -(-outs // packed[4])):
        raise ProgramError(f"{list(packed)} are not the sizes of {outs} packed filters")
    return (*packed[1:4], outs)


@irdl_op_definition
class FusedBatchNormAct(BatchNormBase):
    """activation(batch_norm(x)). Paddle: fused_batch_norm_act."""

    name = "pd.fused_batch_norm_act"
    activation = string("relu")
    act_attrs = dictionary({})


@irdl_op_definition
class FusedBnAddActivation(BatchNormBase):
    """activation(batch_norm(x) + z), with z shaped like x. Paddle: fused_bn_add_activation."""

    name = "pd.fused_bn_add_activation"
    x = operand_def(TENSOR)
    z = operand_def(TENSOR)
    activation = string("relu")
    act_attrs = dictionary({})

    @staticmethod
    def infer(
        x: Tensor,
        mean: Tensor,
        variance: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        data_format: str,
        z: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        if z is None or not compatible(x, z):
            raise ProgramError("z must be shaped like x")
        return BatchNormBase.infer(x, mean, variance, scale, bias, data_format)


@irdl_op_definition
class FusedElemwiseAddActivation(Binary):
    """functor_list = [outer, inner]: either outer(x + y) or x + inner(y).

    Paddle: fused_elemwise_add_activation.
    """

    name = "pd.fused_elemwise_add_activation"
    functor_list = strings()
    scale = number(1.0)
    approximate = flag(False)
    act_attrs = dictionary({})

    @staticmethod
    def infer(x: Tensor, y: Tensor, functor_list: Sequence[str] = ()) -> Tensor:
        if len(functor_list) != 2 or "elementwise_add" not in functor_list:
            raise ProgramError(f"functor_list {list(functor_list)} is not an add and an activation")
        return Binary.infer(x, y)
