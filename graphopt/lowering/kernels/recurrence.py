"""Loops whose steps multiply rows with the same matrices, and their derivative.

JAX's derivative of `lax.scan` adds up the gradient of a matrix in the loop: in each step a product
of few rows, and a sum as large as the matrix. Here the loops note the rows that are multiplied and
the gradients of their products; one product after them has the gradient of all steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import jax
from jax import lax
from jax import numpy as jnp

Array: TypeAlias = jax.Array
Multiply: TypeAlias = Callable[[int, Array], Array]
"""`multiply(number, x)` is `x @ matrices[number]`; a step calls it once for each number."""
Step: TypeAlias = Callable[[Multiply, Any, Any, Any], tuple[Any, Any]]
"""(multiply, others, states, this step's inputs) -> new states, outputs."""


@partial(jax.custom_vjp, nondiff_argnums=(0, 5))
def scan_products(
    step: Step, matrices: tuple[Array, ...], others: Any, start: Any, inputs: Any, reverse: bool
) -> tuple[Any, Any]:
    """Scan over `inputs` as `lax.scan` does; return the last states and all steps' outputs.

    The first axis of each of the `inputs` counts the steps. `matrices` are [in, out] each, and a
    step multiplies rows [..., in] by them. `others` are further operands of every step. `step`
    closes over nothing that needs a derivative.
    """

    def multiply(number: int, x: Array) -> Array:
        return x @ matrices[number]

    def body(states: Any, given: Any) -> tuple[Any, Any]:
        return step(multiply, others, states, given)

    return lax.scan(body, start, inputs, reverse=reverse)


def _forward(
    step: Step, matrices: tuple[Array, ...], others: Any, start: Any, inputs: Any, reverse: bool
) -> tuple[tuple[Any, Any], Any]:
    def loop(added: Any, others: Any, start: Any, inputs: Any) -> tuple[Any, Any]:
        def body(states: Any, given: Any) -> tuple[Any, Any]:
            rows: dict[int, Array] = {}

            def multiply(number: int, x: Array) -> Array:
                rows[number] = x
                return _product(x, matrices[number], given[0][number])

            after, out = step(multiply, others, states, given[1])
            return after, (out, rows)

        end, (outs, rows) = lax.scan(body, start, (added, inputs), reverse=reverse)
        return (end, outs), rows

    added = _zeros_for_products(step, matrices, others, start, inputs)
    results, pull, rows = jax.vjp(loop, added, others, start, inputs, has_aux=True)
    return results, (pull, rows)


def _backward(step: Step, reverse: bool, saved: Any, cotangents: Any) -> tuple[Any, ...]:
    pull, rows = saved
    of_products, *rest = pull(cotangents)
    of_matrices = [(_flat(of_products[n]).T @ _flat(rows[n])).T for n in range(len(rows))]
    return tuple(of_matrices), *rest


scan_products.defvjp(_forward, _backward)


def _zeros_for_products(
    step: Step, matrices: tuple[Array, ...], others: Any, start: Any, inputs: Any
) -> dict[int, Array]:
    """Make zeros shaped as all steps' products; their gradient is the products' gradient."""

    def products(others: Any, states: Any, given: Any) -> dict[int, Array]:
        found: dict[int, Array] = {}

        def multiply(number: int, x: Array) -> Array:
            return found.setdefault(number, x @ matrices[number])

        step(multiply, others, states, given)
        return found

    steps = jax.tree.leaves(inputs)[0].shape[0]
    given = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), inputs)
    shapes = jax.eval_shape(products, others, start, given)
    return jax.tree.map(lambda x: jnp.zeros((steps, *x.shape), x.dtype), shapes)


@jax.custom_vjp
def _product(x: Array, matrix: Array, added: Array) -> Array:
    """Compute `x @ matrix`; `added` are zeros whose gradient replaces the matrix's."""
    del added
    return x @ matrix


def _product_back(matrix: Array, cotangent: Array) -> tuple[Array, None, Array]:
    # not `matrix.T`, which XLA would copy in each step
    last = (cotangent.ndim - 1,), (1,)
    return lax.dot_general(cotangent, matrix, (last, ((), ()))), None, cotangent


_product.defvjp(lambda x, matrix, _: (x @ matrix, matrix), _product_back)


def _flat(x: Array) -> Array:
    """Flatten the rows of all steps; a step may have several rows, or one."""
    return x.reshape(-1, x.shape[-1])
