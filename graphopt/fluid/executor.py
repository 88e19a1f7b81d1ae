"""The executor of 1.8, and functions on its values (paddle.fluid.executor)."""

from graphopt.frontend.calls import publish
from graphopt.frontend.lod_executor import Executor as Executor
from graphopt.frontend.lod_executor import FetchHandler as FetchHandler
from graphopt.frontend.lod_executor import _as_lodtensor as _as_lodtensor
from graphopt.frontend.lod_executor import _fetch_var as _fetch_var
from graphopt.frontend.lod_executor import as_numpy as as_numpy
from graphopt.runtime.state.scope import Scope as Scope
from graphopt.runtime.state.scope import global_scope as global_scope
from graphopt.runtime.state.scope import scope_guard as scope_guard

publish(globals(), __name__)
