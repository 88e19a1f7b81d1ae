"""Models of any format as `.pdmodel` and `.pdiparams`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphopt.errors import UnsupportedError
from graphopt.ir.formats.commit import write_files
from graphopt.ir.formats.parameters import sealed_combined, stored_variables
from graphopt.ir.formats.pir.defaults import complete
from graphopt.ir.formats.protobuf.program_desc import write_program
from graphopt.ir.formats.seal import sealed_message
from graphopt.ir.formats.tensor_stream import write_tensor
from graphopt.ir.program import Variable
from graphopt.ir.program.sub_blocks import upstream
from graphopt.ir.translate.inference import inference_program, without_training_info
from graphopt.ir.translate.onnx.naming import is_onnx_type
from graphopt.ir.translate.openvino_forms import to_openvino_forms

if TYPE_CHECKING:
    from graphopt.ir.formats.model import LoadedModel


READERS = ("paddle", "openvino")
"""The readers of the files, each with its own operators."""


def write_pdmodel(path: Path, model: LoadedModel, reader: str = "paddle") -> list[Path]:
    """Write the program from the model's inputs to its outputs, in test mode; return the files.

    Of a training program this is the forward part. Raises UnsupportedError for a parameter without
    a value, for operators that the reader lacks, and as `static.save_inference_model` does;
    ValueError for an unknown reader.
    """
    if reader not in READERS:
        raise ValueError(f"the reader is {reader!r}; expected one of {', '.join(READERS)}")
    _refuse_other_operators(model)
    saved, variables = saved_program(model, reader)
    tensors = path.with_name(f"{path.name.removesuffix('.pdmodel')}.pdiparams")
    if not variables:
        # old parameters in the folder would be read as this program's
        tensors.unlink(missing_ok=True)
        write_files({path: [saved]})
        return [path]
    streams = (write_tensor(model.parameters[v.name]) for v in variables)
    # The program last: until it is written, Paddle's readers find the old pair or no model.
    write_files({tensors: sealed_combined(streams), path: sealed_message(saved)})
    return [path, tensors]


def _refuse_other_operators(model: LoadedModel) -> None:
    """Raise UnsupportedError for operators of an ONNX model, which Paddle lacks."""
    ops = (op for block in model.program.blocks for op in block.ops)
    others = dict.fromkeys(op.type for op in ops if is_onnx_type(op.type))
    if others:
        raise UnsupportedError(
            f"the model has ONNX operators ({', '.join([*others][:3])} ...), but a .pdmodel holds "
            "Paddle operators; write .onnx, .stablehlo or .jaxexport, or a bundle (graphopt "
            "compile)"
        )


def saved_program(model: LoadedModel, reader: str = "paddle") -> tuple[bytes, list[Variable]]:
    """Serialize the program of `write_pdmodel`; return it and the variables that it stores.

    Raises as `write_pdmodel`.
    """
    program = inference_program(model.program, _needed_inputs(model), model.fetch_names)
    if reader == "openvino":
        to_openvino_forms(program)
    variables = stored_variables(program)
    missing = [v.name for v in variables if v.name not in model.parameters]
    if missing:
        raise UnsupportedError(
            f"the model has no values for {len(missing)} of its parameters "
            f"({', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}); import it with params"
        )
    return write_program(complete(without_training_info(program))), variables


def _needed_inputs(model: LoadedModel) -> list[str]:
    """List the inputs that outputs depend on; the backward pass may read further inputs."""
    if any(op.type == "feed" for op in model.program.global_block().ops):
        return model.feed_names
    needed = upstream(model.program.global_block().ops, model.fetch_names)
    return [name for name in model.feed_names if name in needed]
