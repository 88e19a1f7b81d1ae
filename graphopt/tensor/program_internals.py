"""Methods of programs that rewrites of scripts call: what one program notes, copied to another."""

from __future__ import annotations

from typing import Any

from graphopt.frontend.descriptions import ProgramDesc
from graphopt.ir.program import Parameter, Program, undo


def _check_source(other: Any, method: str) -> None:
    if not isinstance(other, Program):
        raise TypeError(f"Program.{method}() copies from a Program, but received {type(other)}")


def _copy_param_info_from(self: Program, other: Program) -> None:
    """Let variables that are parameters of the other program be parameters like those.

    Raises TypeError for anything else than a program.
    """
    _check_source(other, "_copy_param_info_from")
    block = self.global_block()
    for parameter in other.all_parameters():
        if block.has_var(parameter.name):
            block._declare(parameter.copy_to(block))


def _copy_dist_param_info_from(self: Program, other: Program) -> None:
    """Note which parameters are distributed as the other program does.

    Raises TypeError for anything else than a program.
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
    """Let variables be fed as those of the other program are.

    The map has the number of a block of the other program for the number of a block of this one.
    Raises TypeError for anything else than a program.
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
    """The record of the program, as `desc`."""
    return ProgramDesc(self)


METHODS: dict[str, Any] = {
    "_copy_data_info_from": _copy_data_info_from,
    "_copy_dist_param_info_from": _copy_dist_param_info_from,
    "_copy_param_info_from": _copy_param_info_from,
    "_get_desc": _get_desc,
}
