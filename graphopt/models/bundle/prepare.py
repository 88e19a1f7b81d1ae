"""`@prepare` in a bundle, as the text of a module, where XLA computes it."""

from __future__ import annotations

from functools import partial

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.context import new_context
from graphopt.ir.dialect.signature import prepare_function
from graphopt.ir.dialect.text import ModuleParser, text_of
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.devices.places import Place, device_of
from graphopt.runtime.state.prepare import Prepare


def prepare_text(compiled: Compiled) -> str:
    """The text for a program; "" where a summary says all of its `@prepare`."""
    if compiled.prepare is None or compiled.prepare.steps is not None:
        return ""
    function = prepare_function(compiled.module)
    assert function is not None
    return text_of(ModuleOp([function.clone()]))


def prepare_of(text: str, place: Place) -> Prepare | None:
    """The `@prepare` of a text; whatever a malformed one leads to is raised."""
    module = ModuleParser(new_context(), text, "prepare").parse_module()
    module.verify()
    return Prepare.of(module, place.platform, partial(device_of, place))
