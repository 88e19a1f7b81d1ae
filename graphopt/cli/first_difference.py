"""The text of `graphopt diff --values`: the equal values, and the first op that differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from xdsl.ir import Operation, SSAValue

from graphopt.debug.first_difference import ComparedPrograms, FirstDifference, RecordedProgram
from graphopt.ir.dialect.numbers import numbers_of
from graphopt.passes.engine.naming import show_op
from graphopt.report.difference import changed_attributes
from graphopt.report.graph import OF_PARAMETERS, Graph


class DifferenceInWords:
    """The difference of two programs in words."""

    def __init__(
        self, first: RecordedProgram, second: RecordedProgram, graphs: tuple[Graph, Graph]
    ) -> None:
        self._first = first
        self._graphs = graphs
        self._files = [Path(each.subject.origin).name for each in (first, second)]
        numbers = [numbers_of(each.subject.module) for each in (first, second)]
        self._nodes = [
            {op: by_number[number] for op, number in each.items() if number in by_number}
            for graph, each in zip(graphs, numbers, strict=True)
            for by_number in [{node.number: node for node in graph.nodes}]
        ]

    def lines(self, found: ComparedPrograms) -> Iterator[str]:
        """Describe the results and, if they differ, the op that differs first."""
        if found.wrong is not None:
            yield f"the results differ: {found.wrong}"
        else:
            gap, name = found.largest
            where = f" ({name})" if name else ""
            yield f"the results are equal: the largest difference is {gap:.3g}{where}"
        yield (
            f"{found.found} of {found.values} values of {self._files[0]} "
            f"have an equal value in {self._files[1]}"
        )
        if found.first is not None:
            yield from self._first_difference(found.first)

    def _first_difference(self, found: FirstDifference) -> Iterator[str]:
        if not found.ops:
            yield f"the first value that differs is the input {self._name(found.result.value)}"
            return
        *before, last = found.ops
        yield f"the first op that differs: {self._op(last, 0)}"
        yield f"    {found.result.difference.text}"
        if before:
            yield f"  through ops without a counterpart: {_list_some(map(show_op, before))}"
        twin = found.result.twin.owner
        if isinstance(twin, Operation) and twin in self._nodes[1]:
            yield f"  in {self._files[1]}: {self._op(twin, 1)}"
            ours, theirs = self._nodes[0][last], self._nodes[1][twin]
            changed = changed_attributes(ours, theirs) if ours.name == theirs.name else ()
            yield from (f"  attribute that differs: {words}" for words in changed)
        for each in found.changed:
            yield f"  parameter that differs: {self._name(each.value)}"
            yield f"    {each.difference.text}"
        for words, values in (
            ("parameters without a counterpart", found.missing),
            ("inputs that are equal", found.equal),
        ):
            if values:
                yield f"  {words}: {_list_some(map(self._name, values))}"

    def _op(self, op: Operation, which: int) -> str:
        """Format an op with its result, its layer and its line."""
        node, layer = self._nodes[which][op], self._layer(op, which)
        parts = [show_op(op), f"in {layer}" if layer else "", f"from {node.line}" * bool(node.line)]
        return ", ".join(filter(None, parts))

    def _layer(self, op: Operation, which: int) -> str:
        """Find the layer of an op; for an op that reads only parameters, its first user's layer."""
        node = self._nodes[which].get(op)
        if node is None or node.cluster < 0:
            return ""
        label = self._graphs[which].clusters[node.cluster].label
        readers = [use.operation for result in op.results for use in result.uses]
        if label == OF_PARAMETERS and readers:
            return self._layer(readers[0], which)
        return label

    def _name(self, value: SSAValue) -> str:
        """Name a value of the first program."""
        owner = value.owner
        made_by = owner.name if isinstance(owner, Operation) else "the program"
        return self._first.names.get(value) or f"a result of {made_by}"


def _list_some(texts: Iterable[str], most: int = 6) -> str:
    """Join the first `most` distinct texts, and count the rest."""
    found = list(dict.fromkeys(texts))
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
