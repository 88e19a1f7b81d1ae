"""Methods of programs and variables that need the runtime or the file reader.

`Program` and `Variable` are plain records of the IR. These methods belong to the front end, which
attaches them here, once, when a part of it is imported.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from graphopt.display.table import Column, Page, Table
from graphopt.errors import UnsupportedError
from graphopt.frontend.descriptions import (
    BlockDesc,
    OperatorDesc,
    ProgramDesc,
    VariableDesc,
)
from graphopt.frontend.missing import explain_members
from graphopt.frontend.mode import never_static
from graphopt.ir.program import Block, Operator, Parameter, Program, Variable, VarKind, undo
from graphopt.ir.program.location import caller_level

if TYPE_CHECKING:
    from graphopt.display.layers import LayerSummary
    from graphopt.runtime.state.scope import Scope


def _check_source(other: Any, method: str) -> None:
    if not isinstance(other, Program):
        raise TypeError(f"Program.{method}() copies from a Program, but received {type(other)}")


def _copy_param_info_from(self: Program, other: Program) -> None:
    """Replace variables with copies of the other program's parameters of the same names.

    Raises TypeError unless `other` is a program.
    """
    _check_source(other, "_copy_param_info_from")
    block = self.global_block()
    for parameter in other.all_parameters():
        if block.has_var(parameter.name):
            block._declare(parameter.copy_to(block))


def _copy_dist_param_info_from(self: Program, other: Program) -> None:
    """Copy from the other program which parameters are distributed.

    Raises TypeError unless `other` is a program.
    """
    _check_source(other, "_copy_dist_param_info_from")
    block = self.global_block()
    for parameter in other.all_parameters():
        own = block.vars.get(parameter.name)
        if isinstance(own, Parameter):
            undo.note_attributes(own, "is_distributed")
            own.is_distributed = parameter.is_distributed


def _copy_data_info_from(
    self: Program, other: Program, pruned_origin_block_id_map: dict[int, int] | None = None
) -> None:
    """Copy from the other program which variables are feeds, and their feed attributes.

    The map gives, for the index of a block of this program, the index of its block in the other
    one. Raises TypeError unless `other` is a program.
    """
    _check_source(other, "_copy_data_info_from")
    for block in self.blocks:
        origin = (pruned_origin_block_id_map or {}).get(block.idx, block.idx)
        for name, source in other.blocks[origin].vars.items():
            own = block.vars.get(name)
            if own is None or not source.is_data:
                continue
            undo.note_attributes(own, "is_data", "need_check_feed", "stop_gradient", "saved")
            own.is_data, own.need_check_feed = True, source.need_check_feed
            own.stop_gradient, own.saved = source.stop_gradient, None
    self.touch()


def _get_desc(self: Program) -> ProgramDesc:
    """Return the program's record, the same as `desc`."""
    return ProgramDesc(self)


METHODS: dict[str, Any] = {
    "_copy_data_info_from": _copy_data_info_from,
    "_copy_dist_param_info_from": _copy_dist_param_info_from,
    "_copy_param_info_from": _copy_param_info_from,
    "_get_desc": _get_desc,
}


_NOT_STATE = (VarKind.FEED_MINIBATCH, VarKind.FETCH_LIST, VarKind.READER)
_RENAMES = "StructuredToParameterName@@"


def state_dict(self: Program, mode: str = "all", scope: Scope | None = None) -> dict[str, Any]:
    """Collect the values of persistable variables in a scope, by name (static.Program).

    `mode` is 'param' (the parameters), 'opt' (the other variables) or 'all'. Raises ValueError for
    another mode or a variable without a value.
    """
    from graphopt.runtime.state.scope import Scope, global_scope

    if scope is not None and not isinstance(scope, Scope):
        raise TypeError(f"`scope` should be None or a Scope, but received {type(scope).__name__}")
    if not isinstance(mode, str):
        raise TypeError(f"Type of `mode` should be string, but received {type(mode).__name__}.")
    if mode not in ("param", "opt", "all"):
        raise ValueError(f"`mode` string should be 'param', 'opt' or 'all', but received {mode}.")
    target = scope or global_scope()
    found: dict[str, Any] = {}
    for variable in self.list_vars():
        kind = "param" if isinstance(variable, Parameter) else "opt"
        if mode not in (kind, "all") or not _is_state(variable):
            continue
        slot = target.find_var(variable.name)
        if slot is None or not slot.is_initialized():
            raise ValueError(
                f"Can not find Variable '{variable.name}' in the scope. Make sure it is "
                "initialized: run the startup program first"
            )
        found[variable.name] = slot.get_tensor()
    return found


def _prune(self: Program, targets: Any) -> Program:
    """Copy the program, with only the operators that the targets depend on.

    Targets are variables, by name or not, or operators.
    """
    return _prune_with_input(self, [], targets)


def _prune_with_input(self: Program, feeded_var_names: Any, targets: Any) -> Program:
    """Prune as `_prune`, but without the operators that compute the feeds.

    Unused variables are dropped. Raises ValueError for feeds that are not names, and for targets of
    another kind or that no operator writes.
    """
    from graphopt.ir.translate.prune import keep_used, prune

    feeds = feeded_var_names if isinstance(feeded_var_names, list) else [feeded_var_names]
    for name in feeds:
        if not isinstance(name, str):
            raise ValueError(
                "All feeded_var_names of Program._prune_with_input() can only be str, but "
                f"received {type(name)}."
            )
    items = targets if isinstance(targets, (list, tuple)) else [targets]
    ops = [item for item in items if isinstance(item, Operator)]
    names: list[str] = []
    written = {name for op in self.global_block().ops for name in op.output_arg_names}
    for item in items:
        if isinstance(item, Operator):
            continue
        if not isinstance(item, (str, Variable)):
            raise ValueError(
                "All targets of Program._prune_with_input() can only be Variable or Operator, but "
                f"received {type(item)}."
            )
        names.append(item if isinstance(item, str) else item.name)
        if names[-1] not in written and names[-1] not in feeds:
            raise ValueError(
                "The target variable used for pruning should have an associated operator that "
                f"generates it; nothing writes '{names[-1]}'."
            )
    pruned = prune(self, names, feeds, updates=ops)
    keep_used(pruned, {*names, *feeds})
    return pruned


def _is_state(variable: Variable) -> bool:
    if isinstance(variable, Parameter):
        return True
    skipped = variable.kind in _NOT_STATE or variable.need_check_feed
    return variable.persistable and not skipped


def set_state_dict(
    self: Program, state_dict: Mapping[str, Any], scope: Scope | None = None
) -> None:
    """Write values into a scope by variable name (paddle.static.Program.set_state_dict).

    Warns about, and skips, names that the program does not have and values of another shape or
    dtype.
    """
    from graphopt.runtime.state.scope import global_scope

    if not isinstance(state_dict, Mapping):
        raise TypeError(
            f"Type of `state_dict` should be dict, but received {type(state_dict).__name__}."
        )
    known = {variable.name: variable for variable in self.list_vars()}
    renames = state_dict.get(_RENAMES, {})
    for given, value in state_dict.items():
        if given == _RENAMES:
            continue
        name = renames.get(given, given)
        if name not in known:
            warnings.warn(
                f"Skip loading for '{name}'. Because '{name}' not in the program.",
                stacklevel=caller_level(),
            )
            continue
        reason = _misfit(known[name], value)
        if reason:
            warnings.warn(f"Skip loading for '{name}'. {reason}", stacklevel=caller_level())
            continue
        target = scope or global_scope()
        slot = target.find_var(name) or target.var(name)
        slot.get_tensor().set(np.asarray(value))


def _misfit(variable: Variable, value: Any) -> str:
    array = np.asarray(value)
    if array.shape != variable.shape:
        return f"The value has shape {list(array.shape)}, not {list(variable.shape)}."
    if array.dtype != variable.dtype.numpy:
        return f"The value is {array.dtype}, not {variable.dtype}."
    return ""


def parse_from_string(binary_str: bytes) -> Program:
    """Parse the bytes of a `.pdmodel` file (paddle.static.Program.parse_from_string).

    Raises ModelFormatError for bytes of another format.
    """
    from graphopt.ir.formats.protobuf.program_desc import read_program

    return read_program(bytes(binary_str), "parse_from_string()")


def size(self: Variable) -> Variable:
    """Count the elements, an int64 scalar (paddle.static.Variable.size)."""
    from graphopt.tensor.attribute import numel

    return numel(self)


def element_size(self: Variable) -> int:
    """Return the bytes of one element."""
    return self.dtype.numpy.itemsize


def attr_names(self: Variable) -> list[str]:
    """Return the names of further attributes: there are none."""
    return []


def _dynamic_only(name: str, instead: str) -> Any:
    def method(self: Variable, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError(f"Variable.{name}() is for dynamic mode; {instead}{never_static()}")

    method.__name__ = name
    method.__doc__ = f"Raise UnsupportedError: {instead}."
    return method


def summary(self: Program) -> LayerSummary:
    """Tabulate the forward ops with shapes, parameters and operations; the table prints itself."""
    from graphopt.debug.summary import summary_of_program

    return summary_of_program(self)


def _sync_with_cpp(self: Program | Block) -> None:
    """Do nothing: edits through a record (`desc`) are in the program at once."""


def _remove_var(self: Block, name: str, sync: bool = True) -> None:
    """Remove a variable from a block."""
    BlockDesc(self)._remove_var(name)


def page_of(self: Program) -> Page:
    """Tabulate the facts of a program and the number of its operators by type."""
    facts = Table((Column(), Column(wraps=True)), list(self.facts().items()), "Program")
    counts = Counter(op.type for block in self.blocks for op in block.ops).most_common()
    rows = [(type, str(count)) for type, count in counts]
    return Page([facts, Table((Column("operator"), Column("count", right=True)), rows)])


def attach() -> None:
    """Attach the methods to Program and Variable."""
    program: dict[str, Any] = {
        "state_dict": state_dict,
        "set_state_dict": set_state_dict,
        "parse_from_string": staticmethod(parse_from_string),
        "summary": summary,
        "_prune": _prune,
        "_prune_with_input": _prune_with_input,
        "desc": property(ProgramDesc),
        **METHODS,
        "_sync_with_cpp": _sync_with_cpp,
        "_repr_html_": lambda self: page_of(self).html(),
    }
    backward = "use optimizer.minimize(loss), or paddle.static.append_backward or gradients"
    fetch = "fetch its gradient by name: fetch_list=['x@GRAD']"
    variable: dict[str, Any] = {
        "size": size,
        "element_size": element_size,
        "attr_names": property(attr_names),
        "desc": property(VariableDesc),
        "backward": _dynamic_only("backward", backward),
        "gradient": _dynamic_only("gradient", fetch),
        "clear_gradient": _dynamic_only("clear_gradient", "leave it out"),
        "register_hook": _dynamic_only("register_hook", backward),
    }
    operator: dict[str, Any] = {"desc": property(OperatorDesc)}
    block: dict[str, Any] = {
        "desc": property(BlockDesc),
        "_sync_with_cpp": _sync_with_cpp,
        "_remove_var": _remove_var,
    }
    for owner, methods in (
        (Program, program),
        (Variable, variable),
        (Operator, operator),
        (Block, block),
    ):
        for name, value in methods.items():
            setattr(owner, name, value)
    explain_members(Variable, "paddle.Tensor")
    explain_members(Program, "paddle.static.Program")
