"""Operators and methods of Variables: `x + y`, `x.reshape([…])`, `x[0]`.

`Variable` is a plain record of the IR. Its methods belong to the front end, which attaches them
here, once, when a part of it is imported. A method imports its function when first called.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.calls import called_from_outside, publish_object
from graphopt.frontend.first_values import known_before_runs, value_of
from graphopt.frontend.in_place import write
from graphopt.frontend.mode import never_static, static_mode, would_be_dynamic
from graphopt.frontend.tracing import is_converting
from graphopt.ir.program import Variable
from graphopt.ir.program.location import caller_level, caller_location

BINARY = {
    "add": "elementwise_add",
    "sub": "elementwise_sub",
    "mul": "elementwise_mul",
    "truediv": "elementwise_div",
    "div": "elementwise_div",
    "pow": "elementwise_pow",
    "floordiv": "elementwise_floordiv",
    "mod": "elementwise_mod",
}
COMPARE = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less_than",
    "le": "less_equal",
    "gt": "greater_than",
    "ge": "greater_equal",
}
# bitwise operators, by their functions in bit_operators.py
BITS = {
    "__rand__": "and_from_left",
    "__ror__": "or_from_left",
    "__rxor__": "xor_from_left",
    "__lshift__": "left_shift",
    "__rshift__": "right_shift",
    "__rlshift__": "left_shift_from_left",
    "__rrshift__": "right_shift_from_left",
}
# the functions that are also methods, by their file in graphopt/tensor
METHODS: dict[str, str] = {
    "math": "abs add add_n amax amin atan2 clip cumprod cumsum divide erf exp floor_divide "
    "floor_mod fmax fmin increment lerp log logsumexp max maximum min minimum mod "
    "multiplex multiply neg pow prod remainder rsqrt scale sqrt square subtract sum tanh",
    "stat": "count_nonzero mean median nan_to_num nanmean nansum std var",
    "quantiles": "nanquantile quantile",
    "linalg": "addmm bmm cholesky cross dot inner inverse kron matmul mm mv outer t transpose",
    "logic": "all allclose any bitwise_and bitwise_not bitwise_or bitwise_xor equal equal_all "
    "greater_equal greater_than isclose isfinite isinf isnan less_equal less_than "
    "logical_and logical_not logical_or logical_xor not_equal",
    "manipulation": "broadcast_to cast chunk concat expand flatten gather reshape reshape_ slice "
    "split squeeze squeeze_ stack unsqueeze unsqueeze_",
    "rearrange": "broadcast_tensors expand_as flip repeat_interleave reverse roll strided_slice "
    "swapaxes tile unbind unstack",
    "ranges": "diag diagonal trace tril triu",
    "search": "argmax argmin argsort histogram kthvalue sort topk",
    "data_sized": "bincount masked_select nonzero unique unique_consecutive",
    "elementary": "acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erfinv expm1 "
    "floor frac lgamma log10 log1p log2 logit rad2deg reciprocal round sign sin sinh stanh tan "
    "trunc",
    "distances": "dist norm",
    "positions": "gather_nd index_sample index_select masked_fill masked_scatter put_along_axis "
    "scatter scatter_ scatter_nd scatter_nd_add take_along_axis",
    "attribute": "angle conj imag is_complex is_empty is_floating_point is_integer is_tensor numel "
    "rank real",
    "creation": "clone",
    "random": "multinomial",
    "inplace": "abs_ acos_ acosh_ add_ addmm_ asin_ asinh_ atan_ atanh_ bitwise_and_ "
    "bitwise_not_ bitwise_or_ bitwise_xor_ cast_ ceil_ clip_ cos_ cosh_ cumprod_ "
    "cumsum_ digamma_ divide_ equal_ erf_ erfinv_ exp_ expm1_ flatten_ floor_ "
    "floor_divide_ floor_mod_ frac_ gcd_ greater_equal_ greater_than_ hypot_ i0_ "
    "index_add_ index_fill_ index_put_ lcm_ ldexp_ lerp_ less_equal_ less_than_ "
    "lgamma_ log10_ log1p_ log2_ log_ logical_and_ logical_not_ logical_or_ "
    "logical_xor_ logit_ masked_fill_ mod_ multigammaln_ multiply_ nan_to_num_ neg_ "
    "not_equal_ polygamma_ pow_ put_along_axis_ reciprocal_ remainder_ renorm_ "
    "round_ rsqrt_ scale_ sigmoid_ sin_ sinh_ sqrt_ square_ subtract_ t_ tan_ tanh_ transpose_ "
    "tril_ triu_ trunc_ where_",
    "special": "bitwise_left_shift bitwise_right_shift copysign frexp gammainc gammaincc "
    "gammaln gcd heaviside hypot i0 i0e i1 i1e isin isneginf isposinf isreal lcm "
    "ldexp logaddexp multigammaln nextafter polygamma positive sgn signbit sinc",
    "complexes": "as_complex as_real polar",
    "accumulate": "cummax cummin cumulative_trapezoid diff logcumsumexp mode nanmedian renorm "
    "trapezoid",
    "stacking": "as_strided atleast_1d atleast_2d atleast_3d broadcast_shape combinations dsplit "
    "hsplit moveaxis rot90 tensor_split unflatten unfold view view_as vsplit",
    "places": "bucketize diag_embed diagflat diagonal_scatter index_add index_fill index_put "
    "select_scatter shard_index slice_scatter take",
    "contract": "cdist corrcoef cov tensordot vander",
    "indexing": "append",
    "matrix_norm": "cond",
    "low_rank": "pca_lowrank svd_lowrank",
    "spellings": "argwhere baddbmm bitwise_invert matrix_transpose msort narrow permute ravel "
    "reduce_as scatter_add scatter_reduce sigmoid softmax swapdims true_divide view_as_complex "
    "view_as_real",
    "decompose": "cholesky_inverse cholesky_solve eig eigvals eigvalsh householder_product "
    "lstsq lu lu_unpack matrix_power multi_dot pinv qr slogdet solve triangular_solve",
}

# methods whose function has another name: method -> file, function
SPELLINGS: dict[str, tuple[str, str]] = {
    "clamp": ("math", "clip"),
    "div": ("spellings", "true_divide"),
    "mul": ("math", "multiply"),
    "sub": ("math", "subtract"),
    "eq": ("logic", "equal"),
    "ge": ("logic", "greater_equal"),
    "greater": ("logic", "greater_than"),
    "gt": ("logic", "greater_than"),
    "le": ("logic", "less_equal"),
    "less": ("logic", "less_than"),
    "lt": ("logic", "less_than"),
    "ne": ("logic", "not_equal"),
    "negative": ("math", "neg"),
    "repeat": ("rearrange", "tile"),
    "take_along_dim": ("positions", "take_along_axis"),
}
# methods that cast -> their dtype
CASTS: dict[str, str] = {
    "bfloat16": "bfloat16",
    "bool": "bool",
    "byte": "uint8",
    "cdouble": "complex128",
    "cfloat": "complex64",
    "char": "int8",
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    **{
        kind: kind
        for kind in ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"]
    },
    **{kind: kind for kind in ("complex64", "complex128")},
}


class _Method:
    """A method that looks up its function in graphopt/tensor and gives way to it on first use."""

    def __init__(self, file: str, name: str, attribute: str = "") -> None:
        self.file, self.name = file, name
        self.attribute = attribute or name

    def __get__(self, variable: Variable | None, owner: type) -> Any:
        function = publish_object(getattr(_file(self.file), self.name), "graphopt", self.name)
        setattr(Variable, self.attribute, function)
        return function if variable is None else function.__get__(variable, owner)


def _file(name: str) -> Any:
    return import_module(f"graphopt.tensor.{name}")


def _operator(type: str, *, reverse: bool = False) -> Callable[..., Any]:
    def method(self: Variable, other: Any) -> Any:
        from graphopt.tensor.operators import operate

        return operate(type, self, other, reverse=reverse)

    return called_from_outside(method)


def astype(self: Variable, dtype: Any) -> Variable:
    """Cast x to another dtype (paddle.Tensor.astype)."""
    return _file("scaled").cast_to(self, arguments.dtype(dtype, "dtype", "astype"))


def cpu(self: Variable) -> Variable:
    """Copy the tensor; the executor decides where a program runs (paddle.Tensor.cpu)."""
    return _file("creation").clone(self)


def cuda(self: Variable, device_id: int | None = None, blocking: bool = True) -> Variable:
    """Copy the tensor, as `cpu` does (paddle.Tensor.cuda)."""
    return _file("creation").clone(self)


def type_as(self: Variable, other: Variable) -> Variable:
    """Cast x to the dtype of another tensor (paddle.Tensor.type_as)."""
    return astype(self, arguments.variable(other, "other", "type_as").dtype)


def _cast_to(dtype: str) -> Callable[..., Any]:
    def method(self: Variable) -> Variable:
        return astype(self, dtype)

    return called_from_outside(method)


def detach(self: Variable) -> Variable:
    """Copy the tensor; no gradient flows through the copy (paddle.Tensor.detach)."""
    copy = _file("creation").clone(self)
    copy.stop_gradient = True
    return copy


def where(self: Variable, x: Any, y: Any, name: str | None = None) -> Variable:
    """Select x where this condition holds, else y."""
    return _file("search").where(self, x, y, name)


def get_value(self: Variable, scope: Any = None) -> Any:
    """Return a persistable variable's value in a scope (the global one), as a tensor.

    Raises ValueError when the scope does not have it, TypeError for another kind of scope. Paddle
    page: paddle.static.Variable.
    """
    from graphopt.runtime.state.scope import Scope, global_scope

    if not isinstance(scope, Scope | None):
        raise TypeError(f"get_value(): 'scope' must be a Scope, found {type(scope).__name__}")
    slot = (scope or global_scope()).find_var(self.name)
    if slot is None:
        raise ValueError(f"Can not find {self.name} in the scope; run the startup program first")
    return slot.get_tensor()


def set_value(self: Variable, value: Any, scope: Any = None) -> None:
    """Write a persistable variable in a scope (the global one); ValueError for another shape.

    If `value` is a Variable, it is computed now, from the parameters' current values; it must not
    need a feed. In a trace the program writes it in each run.
    """
    from graphopt.runtime.state.scope import global_scope

    if is_converting():
        write(self, _file("creation").to_tensor(value, self.dtype), "set_value()")
        return
    array = value_of(value) if isinstance(value, Variable) else np.asarray(value)
    if array.shape != self.shape:
        raise ValueError(
            f"Variable '{self.name}' has shape {list(self.shape)}, but the value has "
            f"{list(array.shape)}"
        )
    target = scope or global_scope()
    slot = target.find_var(self.name) or target.var(self.name)
    slot.get_tensor().set(array.astype(self.dtype.numpy))


def _put_item(self: Variable, index: Any, value: Any) -> None:
    """Assign `x[index] = value` in dynamic mode or a trace; raise RuntimeError in static mode."""
    dynamic = would_be_dynamic() and not self.is_data
    if not (is_converting() or dynamic):
        raise RuntimeError(
            f"'{self.name}' cannot be changed in place: in static mode, write "
            "x = paddle.static.setitem(x, index, value) instead of x[index] = value"
        )
    if dynamic and self.persistable:
        array = value_of(self)
        array[index] = value_of(value) if isinstance(value, Variable) else value
        set_value(self, array)
        return
    with static_mode():
        write(self, _file("indexing").set_item(self, index, value), "x[i] = v")


def item(self: Variable) -> Any:
    """Return the Variable itself, which must have at most one axis (Tensor.item).

    Where Paddle would be in dynamic mode, return the number of a constant.
    """
    value = None if is_converting() else known_before_runs(self)
    if value is not None:
        return value.item()
    if len(self.shape) > 1:
        raise TypeError(
            f"item(): '{self.name}' must have one axis at most, found {list(self.shape)}"
        )
    return self


def _truth(self: Variable) -> bool:
    """Return True, as any object in Paddle's static mode: `if x:` tests that there is a Variable.

    A condition gets a warning, for it has no value yet. `x in [y]` is an exception: it compares by
    `equal`, whose truth Python needs at once. Where Paddle would be in dynamic mode, a constant has
    its own truth. Raises UnsupportedError in a trace.
    """
    if is_converting():
        raise UnsupportedError(
            f"{caller_location()}: Python needs the truth of '{self.name}' while a function is "
            "traced, where it has no value. In the functions of the script `if`, `while`, `for`, "
            "`and`, `or`, `not` and `assert` can follow a tensor; elsewhere, and in functions "
            "without a source file, use paddle.where, paddle.static.nn.cond or while_loop"
        )
    value = known_before_runs(self)
    if value is not None:
        return bool(value)
    if self.has_type and self.dtype == "bool":
        ops = self.block.program.current_block().ops
        if not (ops and ops[-1].type == "equal" and self.name in ops[-1].output_arg_names):
            warnings.warn(
                f"the truth of '{self.name}' is not known before the program runs; `if`, `and` and "
                "`while` take every Variable for True. Use paddle.where, logical_and, "
                "paddle.static.nn.cond or while_loop",
                stacklevel=2,
            )
    return True


_said = False


def _as_text(self: Variable) -> str:
    """Return the type as text. Where Paddle would print a value, warn once that there is none."""
    global _said
    if would_be_dynamic() and not (is_converting() or _said):
        _said = True
        warnings.warn(
            f"'{self.name}' has no value to print: this script never called "
            "paddle.enable_static(), and graphopt has static mode only. .numpy() gives the value "
            "of a constant; a function of paddle.jit.to_static, or a program, computes others",
            stacklevel=caller_level(),
        )
    return repr(self)


def _format(self: Variable, form: str) -> str:
    """Format a constant by a spec such as `.3f`; without a spec, return the Variable's text."""
    return format(numpy(self).item(), form) if form else str(self)


def _no_values(self: Variable, *args: Any) -> NoReturn:
    if is_converting():
        raise UnsupportedError(
            f"{caller_location()}: '{self.name}' has no value while a function is traced; compute "
            "with functions of paddle, or return it and use .numpy() outside of the function"
        )
    raise TypeError(
        f"'{self.name}' has no value before the program runs; fetch it: "
        f"exe.run(program, feed=…, fetch_list=[x]){never_static()}"
    )


def numpy(self: Variable) -> Any:
    """Return the value of a parameter, a buffer or a constant; TypeError for other Variables."""
    if self.persistable and not is_converting():
        return value_of(self)
    value = None if is_converting() else known_before_runs(self)
    return _no_values(self) if value is None else value


def _as_number(kind: type) -> Callable[..., Any]:
    def method(self: Variable) -> Any:
        return kind(numpy(self).item())

    return method


def _transpose_all(self: Variable) -> Variable:
    return _file("linalg").transpose(self, list(range(len(self.shape)))[::-1])


def attach() -> None:
    """Attach the operators and methods to Variable."""
    for file, names in METHODS.items():
        for name in names.split():
            setattr(Variable, name, _Method(file, name))
    for name, (file, function) in SPELLINGS.items():
        setattr(Variable, name, _Method(file, function, name))
    for name, dtype in CASTS.items():
        setattr(Variable, name, _cast_to(dtype))
    for name, type in BINARY.items():
        setattr(Variable, f"__{name}__", _operator(type))
        setattr(Variable, f"__r{name}__", _operator(type, reverse=True))
    for name, type in COMPARE.items():
        setattr(Variable, f"__{name}__", _operator(type))
    extra: dict[str, Any] = {
        "__matmul__": _Method("operators", "product", "__matmul__"),
        "__neg__": _Method("operators", "negate", "__neg__"),
        "__abs__": _Method("math", "abs", "__abs__"),
        "__invert__": _Method("logic", "bitwise_not", "__invert__"),
        "__and__": _Method("logic", "bitwise_and", "__and__"),
        "__or__": _Method("logic", "bitwise_or", "__or__"),
        "__xor__": _Method("logic", "bitwise_xor", "__xor__"),
        **{name: _Method("bit_operators", called, name) for name, called in BITS.items()},
        "__rmatmul__": _Method("operators", "product_from_left", "__rmatmul__"),
        "__pos__": _Method("special", "positive", "__pos__"),
        "__getitem__": _Method("indexing", "get_item", "__getitem__"),
        "__setitem__": _put_item,
        "item": item,
        "__iter__": _Method("indexing", "iterate", "__iter__"),
        "__bool__": _truth,
        "__array__": lambda self, dtype=None, copy=None: np.asarray(numpy(self), dtype),
        "__float__": _as_number(float),
        "__int__": _as_number(int),
        "__hash__": object.__hash__,
        "__str__": _as_text,
        "__format__": _format,
        "numpy": numpy,
        "astype": astype,
        "cpu": cpu,
        "cuda": cuda,
        "detach": detach,
        "type_as": type_as,
        "where": where,
        "get_value": get_value,
        "set_value": set_value,
        "dim": lambda self: len(self.shape),
        "ndimension": lambda self: len(self.shape),
        "ndim": property(lambda self: len(self.shape)),
        "T": property(_transpose_all),
        "mT": property(lambda self: _file("spellings").matrix_transpose(self)),
    }
    for name, value in extra.items():
        setattr(Variable, name, value)
    # NumPy must leave `array + x` to the Variable, not loop over its own elements
    Variable.__array_ufunc__ = None  # type: ignore[attr-defined]
