"""Layer: a part of a network with parameters, sub-layers and buffers (paddle.nn.Layer)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from inspect import Signature, signature
from types import FunctionType
from typing import Any, TypeVar

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.missing import member_error
from graphopt.frontend.mode import static_mode, would_be_dynamic
from graphopt.frontend.parameters import as_param_attr
from graphopt.frontend.tracing import current_trace, traceable
from graphopt.ir.program import Parameter, Variable, unique_name

Hook = Callable[..., Any]
L = TypeVar("L", bound="Layer")


def _snake(name: str) -> str:
    """Convert a class name to a prefix: `BatchNorm2D` to `batch_norm2d`, `PReLU` to `p_re_lu`."""
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()


class HookHandle:
    """Removes a hook from its layer."""

    def __init__(self, hooks: dict[int, Hook], key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """Stop calling the hook."""
        self._hooks.pop(self._key, None)


class Layer:
    """Base of the layers (Paddle page: paddle.nn.Layer).

    `parameters`, `sublayers` and `state_dict` find attributes that are parameters, layers or
    buffers. Calling a layer appends operators to the default main program; its parameters belong to
    the program that was current when they were created.
    """

    training: bool

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32") -> None:
        scope = _snake(name_scope or type(self).__name__)
        state: dict[str, Any] = {
            "training": True,
            "_full_name": unique_name.generate(scope),
            "_dtype": arguments.dtype(dtype, "dtype", "Layer"),
            "_parameters": {},
            "_sub_layers": {},
            "_buffers": {},
            "_non_persistable_buffer_names_set": set(),
            "_forward_pre_hooks": {},
            "_forward_post_hooks": {},
        }
        self.__dict__.update(state)

    # -- attributes ----------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_sub_layers", "_buffers"):
            found = self.__dict__.get(kind)
            if found is not None and name in found:
                return found[name]
        raise member_error(self, name, "paddle.nn.Layer")

    def __setattr__(self, name: str, value: Any) -> None:
        kind = "_parameters" if isinstance(value, Parameter) else None
        kind = "_sub_layers" if isinstance(value, Layer) else kind
        kinds = ("_parameters", "_sub_layers", "_buffers")
        if kind is not None and kind not in self.__dict__:
            raise RuntimeError(f"call super().__init__() of {type(self).__name__} first")
        if name in self.__dict__.get("_buffers", ()) and not isinstance(
            value, (Variable, Layer, type(None))
        ):
            raise TypeError(
                f"assignment to buffers '{name}' should be of type core.Tensor or None, but got "
                f"'{type(value).__name__}'; make it a tensor, or delete the buffer first"
            )
        holder = kind or next((k for k in kinds if name in self.__dict__.get(k, ())), None)
        if holder is None or not isinstance(value, (Variable, Layer, type(None))):
            object.__setattr__(self, name, value)
            return
        if holder == "_buffers" and _is_written(self.__dict__[holder].get(name), value):
            LayerHelper("assign").append_op(
                "assign", {"X": value}, {"Out": self.__dict__[holder][name]}
            )
            return
        for other in kinds:
            self.__dict__[other].pop(name, None) if other != holder else None
        self.__dict__.pop(name, None)
        self.__dict__[holder][name] = value

    def __delattr__(self, name: str) -> None:
        for kind in ("_parameters", "_sub_layers", "_buffers"):
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                return
        object.__delattr__(self, name)

    def full_name(self) -> str:
        """Return the prefix of the parameters' names, e.g. `linear_0`."""
        return self._full_name

    def create_parameter(
        self,
        shape: Any,
        attr: Any = None,
        dtype: Any = None,
        is_bias: bool = False,
        default_initializer: Any = None,
    ) -> Parameter | None:
        """Create a parameter named after this layer; None when `attr` is False.

        Without an initializer, biases start at 0 and weights from XavierUniform.
        """
        chosen = as_param_attr(attr)
        if chosen is None:
            return None
        with static_mode():  # a layer that is to be traced may be created in dynamic mode
            return LayerHelper(self._full_name, self._full_name).parameter(
                chosen,
                arguments.shape(shape, "create_parameter"),
                dtype,
                is_bias=is_bias,
                default_initializer=default_initializer,
            )

    def add_parameter(self, name: str, parameter: Parameter | None) -> Parameter | None:
        """Register a parameter under a name."""
        if parameter is not None and not isinstance(parameter, Parameter):
            raise TypeError(f"add_parameter(): '{name}' must be a Parameter")
        self._parameters[name] = parameter
        return parameter

    def add_sublayer(self, name: str, sublayer: Layer | None) -> Layer | None:
        """Register a sub-layer under a name."""
        if sublayer is not None and not isinstance(sublayer, Layer):
            raise TypeError(f"add_sublayer(): '{name}' must be a Layer")
        self._sub_layers[name] = sublayer
        return sublayer

    def register_buffer(self, name: str, tensor: Variable | None, persistable: bool = True) -> None:
        """Register a Variable that is saved with the layer but not trained."""
        if tensor is not None and not isinstance(tensor, Variable):
            raise TypeError(f"register_buffer(): '{name}' must be a Variable")
        self._buffers[name] = tensor
        if not persistable:
            self._non_persistable_buffer_names_set.add(name)

    # -- contents ------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        """Yield the direct sub-layers by name, each once."""
        seen: set[int] = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and id(layer) not in seen:
                seen.add(id(layer))
                yield name, layer

    def children(self) -> Iterator[Layer]:
        """Yield the direct sub-layers."""
        return (layer for _, layer in self.named_children())

    def named_sublayers(
        self, prefix: str = "", include_self: bool = False, layers_set: set[int] | None = None
    ) -> Iterator[tuple[str, Layer]]:
        """Yield all sub-layers, depth first, by dotted name, each once."""
        seen = set() if layers_set is None else layers_set
        if include_self and id(self) not in seen:
            seen.add(id(self))
            yield prefix, self
        for name, layer in self.named_children():
            inner = f"{prefix}.{name}" if prefix else name
            yield from layer.named_sublayers(inner, True, seen)

    def sublayers(self, include_self: bool = False) -> list[Layer]:
        """List all sub-layers."""
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def _named_members(self, kind: str, prefix: str, deep: bool) -> Iterator[tuple[str, Any]]:
        layers = self.named_sublayers(prefix, True) if deep else iter([(prefix, self)])
        seen: set[int] = set()
        for path, layer in layers:
            for name, value in layer.__dict__[kind].items():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", include_sublayers: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters by dotted name, each once."""
        return self._named_members("_parameters", prefix, include_sublayers)

    def parameters(self, include_sublayers: bool = True) -> list[Parameter]:
        """List the parameters, each once."""
        return [p for _, p in self.named_parameters("", include_sublayers)]

    def named_buffers(
        self, prefix: str = "", include_sublayers: bool = True
    ) -> Iterator[tuple[str, Variable]]:
        """Yield the buffers by dotted name, each once."""
        return self._named_members("_buffers", prefix, include_sublayers)

    def buffers(self, include_sublayers: bool = True) -> list[Variable]:
        """List the buffers, each once."""
        return [b for _, b in self.named_buffers("", include_sublayers)]

    def apply(self, fn: Callable[[Layer], Any]) -> Layer:
        """Call `fn` with every sub-layer and then with this layer; return `self`."""
        for layer in self.children():
            layer.apply(fn)
        fn(self)
        return self

    def train(self) -> None:
        """Use the training form of dropout and batch normalization in later calls."""
        for layer in self.sublayers(include_self=True):
            layer.training = True

    def eval(self) -> None:
        """Use the inference form of dropout and batch normalization in later calls."""
        for layer in self.sublayers(include_self=True):
            layer.training = False

    # -- saving --------------------------------------------------------------------------------

    def state_dict(
        self,
        destination: dict[str, Variable] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
    ) -> dict[str, Variable]:
        """Collect parameters and persistable buffers by dotted name, each under all its names."""
        found = {} if destination is None else destination
        for name, value in self._parameters.items():
            if value is not None:
                found[structured_name_prefix + name] = value
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistable_buffer_names_set:
                found[structured_name_prefix + name] = value
        if include_sublayers:
            for name, layer in self._sub_layers.items():
                if layer is not None:
                    layer.state_dict(found, True, f"{structured_name_prefix}{name}.")
        return found

    def set_state_dict(
        self, state_dict: Mapping[str, Any], use_structured_name: bool = True
    ) -> tuple[list[str], list[str]]:
        """Write values into the global scope, by dotted name or by variable name.

        Returns the names that the state lacks, and the names that the layer lacks. Raises
        ValueError when a value has another shape.
        """
        missing: list[str] = []
        used: set[str] = set()
        for dotted, variable in self.state_dict().items():
            key = dotted if use_structured_name else variable.name
            if key not in state_dict:
                missing.append(key)
                continue
            used.add(key)
            value = state_dict[key]
            variable.set_value(value.numpy() if hasattr(value, "numpy") else value)  # pyright: ignore
        return missing, [key for key in state_dict if key not in used]

    set_dict = load_dict = set_state_dict

    # -- calling -------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(layer, inputs)` before each forward; its result replaces the inputs."""
        return _register(self._forward_pre_hooks, hook)

    def register_forward_post_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(layer, inputs, output)` after each forward; its result replaces the output."""
        return _register(self._forward_post_hooks, hook)

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        trace = current_trace()
        if trace is not None and trace.held is not None:
            trace.held.watch(self)
        return self._with_hooks(traceable(self.forward), inputs, kwargs)

    def _with_hooks(
        self, forward: Callable[..., Any], inputs: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        for hook in list(self._forward_pre_hooks.values()):
            replaced = hook(self, inputs)
            if replaced is not None:
                inputs = replaced if isinstance(replaced, tuple) else (replaced,)
        outputs = forward(*inputs, **kwargs)
        for hook in list(self._forward_post_hooks.values()):
            replaced = hook(self, inputs, outputs)
            outputs = outputs if replaced is None else replaced
        return outputs

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Append this layer's operators; every subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def extra_repr(self) -> str:
        """Return the text in the parentheses of the layer's representation."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {layer!r}" for name, layer in self.named_children()]
        if not lines:
            return f"{type(self).__name__}({self.extra_repr()})"
        inner = "\n".join(lines).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {inner}\n)"


def with_defaults(**values: Any) -> Callable[[type[L]], type[L]]:
    """Give a layer the arguments of its base class, some with other defaults."""

    def change(layer: type[L]) -> type[L]:
        init: Any = layer.__init__
        own: Any = FunctionType(init.__code__, init.__globals__, "__init__", None, init.__closure__)
        defaults = {name: p.default for name, p in signature(init).parameters.items()} | values
        own.__defaults__ = tuple(each for each in defaults.values() if each is not Signature.empty)
        own.__annotations__, own.__module__ = init.__annotations__, layer.__module__
        own.__qualname__ = f"{layer.__qualname__}.__init__"
        changed: Any = layer
        changed.__init__ = own
        return layer

    return change


def _is_written(buffer: Any, value: Any) -> bool:
    """True if a new value of a buffer is written to it, so that the next run reads it.

    That is so in a program, as in Paddle; a trace handles buffers at its end.
    """
    return (
        isinstance(buffer, Variable)
        and isinstance(value, Variable)
        and buffer.persistable
        and value is not buffer
        and not would_be_dynamic()
        and current_trace() is None
    )


def _register(hooks: dict[int, Hook], hook: Hook) -> HookHandle:
    key = max(hooks, default=-1) + 1
    hooks[key] = hook
    return HookHandle(hooks, key)
