"""Models as `.pdmodel` and `.pdiparams`, whatever they were read from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphopt.errors import UnsupportedError
from graphopt.ir.inference import inference_program, op_reads, without_training_info
from graphopt.ir.reader.files import write_files
from graphopt.ir.reader.parameters import stored_variables
from graphopt.ir.reader.program_desc import write_program
from graphopt.ir.reader.tensor_stream import write_tensor
from graphopt.ir.sub_blocks import names_in, sub_block

if TYPE_CHECKING:
    from graphopt.importing.model import ImportedModel


def write_pdmodel(path: Path, model: ImportedModel) -> list[Path]:
    """Write what computes the model's outputs from its inputs, in test mode; the files written.

    Of a training program that is the forward part. Raises UnsupportedError for a parameter without
    a value, and as `static.save_inference_model` does.
    """
    program = inference_program(model.program, _needed(model), model.fetch_names)
    variables = stored_variables(program)
    missing = [v.name for v in variables if v.name not in model.parameters]
    if missing:
        raise UnsupportedError(
            f"the model has no values for {len(missing)} of its parameters "
            f"({', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}); import it with params"
        )
    saved = [write_program(without_training_info(program))]
    tensors = path.with_name(f"{path.name.removesuffix('.pdmodel')}.pdiparams")
    if not variables:
        # parameters of what was there before would be taken for this program's
        tensors.unlink(missing_ok=True)
        write_files({path: saved})
        return [path]
    streams = (write_tensor(model.parameters[v.name]) for v in variables)
    # The program last: until it is there, a reader finds the old pair or no model.
    write_files({tensors: streams, path: saved})
    return [path, tensors]


def _needed(model: ImportedModel) -> list[str]:
    """The inputs that the outputs depend on: a training program's may be read only backwards."""
    if any(op.type == "feed" for op in model.program.global_block().ops):
        return model.feed_names
    needed = set(model.fetch_names)
    for op in reversed(model.program.global_block().ops):
        if not needed.isdisjoint(op.output_arg_names):
            needed.update(op_reads(op))
            if "sub_block" in op.attrs:
                needed.update(names_in(sub_block(op), written=False))
    return [name for name in model.feed_names if name in needed]
