"""Decode pickles of parameters (`.pdparams`, `.pdopt`, paddle.save) to plain values, safely.

An interpreter of the opcodes that Paddle's files have. It imports nothing and calls nothing:
Python's own `pickle` runs any code that a file names, even when the classes it may import are
restricted. `values.py` has the other values that a file may build.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn, cast

import numpy as np

from graphopt.errors import FormatError, LimitError, UnsafeError
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.pickle.values import (
    GLOBALS,
    Blank,
    Copies,
    ElementType,
    Global,
    Malformed,
    RefusedCall,
    TooLarge,
    build_array,
    call,
    set_byte_order,
)
from graphopt.ir.formats.quote import kind_of, quote

# Longer byte strings stay views of the file; only arrays have such long ones.
_COPIED = 1 << 16
_MARK = object()
_LEAVES = (str, int, float, complex, bytes, type(None), np.ndarray)


def read_pickle(data: bytes, source: str = "<pickle>", limits: Limits | None = None) -> Any:
    """Decode a pickle of protocol 2 to 5.

    The value consists of dicts, lists, tuples, strings, bytes, numbers, None and read-only arrays.
    Raises UnsafeError, naming the class or function, for a pickle that would build or call anything
    else, FormatError with the byte offset for a malformed pickle, LimitError for a pickle that
    exceeds `limits`.
    """
    value, end = read_first_pickle(data, source, limits)
    if end != len(data):
        raise FormatError(
            f"{source}: byte {end - 1}: expected the end, found {len(data) - end} bytes more"
        )
    return value


def read_first_pickle(
    data: bytes, source: str = "<pickle>", limits: Limits | None = None
) -> tuple[Any, int]:
    """Decode, as `read_pickle`, the first pickle in `data`; return its value and its end."""
    reader = _PickleReader(data, source, limits or Limits())
    value = reader.run()
    reader.check(value)
    return value, reader.position


class _PickleReader:
    """The pickle machine: a stack, and a memo of earlier values."""

    def __init__(self, data: bytes, source: str, limits: Limits) -> None:
        self.data, self.source, self.limits = data, source, limits
        self.position = self.start = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.copies = Copies(len(data), limits)

    def run(self) -> Any:
        for _ in range(self.limits.pickle_steps):
            self.start = self.position
            opcode = self.take(1)[0]
            if opcode == ord("."):
                return self.pop()
            step = _STEPS.get(opcode)
            if step is None:
                self.refuse_opcode(opcode)
            try:
                step(self)
            except RefusedCall as problem:
                self.unsafe(str(problem))
            except Malformed as problem:
                self.fail(str(problem))
            except TooLarge as problem:
                raise LimitError(f"{self.where()}: {problem} exceeds the limits") from None
        raise LimitError(
            f"{self.where()}: expected at most {self.limits.pickle_steps} steps, found more"
        )

    def where(self) -> str:
        return f"{self.source}: byte {self.start}"

    def fail(self, problem: str) -> NoReturn:
        raise FormatError(f"{self.where()}: {problem}")

    def unsafe(self, found: str) -> NoReturn:
        raise UnsafeError(
            f"{self.where()}: expected only arrays, dicts, lists, tuples, strings and numbers, "
            f"found {found}"
        )

    def refuse_opcode(self, opcode: int) -> NoReturn:
        if opcode in _OBJECTS:
            self.unsafe(f"an opcode that {_OBJECTS[opcode]}")
        self.fail(f"expected an opcode of Paddle's pickles, found {opcode:#x}")

    def take(self, size: int) -> bytes:
        return bytes(self.view(size))

    def view(self, size: int) -> memoryview:
        left = len(self.data) - self.position
        if size > left:
            self.fail(f"expected {size} bytes more, found {left}")
        self.position += size
        return memoryview(self.data)[self.position - size : self.position]

    def number(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return value

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            self.fail("expected a value on the stack, found none")
        return self.stack.pop()

    def top(self) -> Any:
        value = self.pop()
        self.stack.append(value)
        return value

    def pop_to_mark(self) -> list[Any]:
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _MARK:
                values = self.stack[index + 1 :]
                del self.stack[index:]
                return values
        self.fail("expected a mark on the stack, found none")

    # the opcodes, one method each

    def text(self, size: int) -> None:
        try:
            self.push(str(self.view(size), "utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            self.fail("expected text in UTF-8")

    def byte_string(self, size: int) -> None:
        view = self.view(size)
        self.push(view if size > _COPIED else bytes(view))

    def latin_string(self, size: int) -> None:
        """Push a string of Python 2, whose arrays have their bytes in such strings."""
        self.push(str(self.view(size), "latin1"))

    def line(self) -> str:
        end = self.data.find(b"\n", self.position, self.position + 1024)
        if end < 0:
            self.fail("expected a line of text")
        text = str(self.view(end - self.position), "latin1")
        self.position += 1
        return text

    def import_name(self, module: Any, name: Any) -> None:
        found = f"{module}.{name}"
        if not (isinstance(module, str) and isinstance(name, str)) or found not in GLOBALS:
            self.unsafe(f"the class or function {quote(found)}")
        self.push(Global(found))

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        self.import_name(module, name)

    def append(self, values: list[Any]) -> None:
        target = self.top()
        if not isinstance(target, list):
            self.unsafe(f"elements added to {_kind(target)}")
        cast(list[Any], target).extend(values)

    def set_items(self, pairs: list[Any]) -> None:
        target = self.top()
        if not isinstance(target, dict):
            self.unsafe(f"items set in {_kind(target)}")
        if len(pairs) % 2:
            self.fail("expected pairs of key and value")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            # Hashing other keys can be very slow, for nested tuples.
            if not isinstance(key, str | int | float | bytes | None):
                self.fail(f"expected a string or number as key, found {_kind(key)}")
            target[key] = value

    def remember(self, slot: int) -> None:
        value = self.top()
        if isinstance(value, Blank):
            value.slots.append(slot)
        self.memo[slot] = value

    def recall(self, slot: int) -> None:
        if slot not in self.memo:
            self.fail(f"expected a value in memo slot {slot}, found none")
        self.push(self.memo[slot])

    def reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        self.push(call(function, arguments, self.copies))

    def build(self) -> None:
        state, target = self.pop(), self.pop()
        if isinstance(target, ElementType):
            set_byte_order(target, state)
        elif isinstance(target, Blank):
            array = build_array(state, self.copies)
            for slot in target.slots:
                if self.memo.get(slot) is target:
                    self.memo[slot] = array
            target = array
        else:
            self.unsafe(f"the state of {_kind(target)}")
        self.push(target)

    def check(self, value: Any) -> None:
        """Refuse a result with cycles, with too many levels, or with values that are not plain."""
        seen: set[int] = set()
        open_containers: set[int] = set()
        todo: list[Any] = [(value, False)]
        while todo:
            item, leaving = todo.pop()
            if leaving:
                open_containers.discard(id(item))
            elif _is_container(item):
                if id(item) in open_containers:
                    self.fail("expected no container that contains itself")
                if id(item) not in seen:
                    seen.add(id(item))
                    open_containers.add(id(item))
                    if len(open_containers) > self.limits.nesting:
                        raise LimitError(
                            f"{self.source}: expected at most {self.limits.nesting} nested "
                            "containers, found more"
                        )
                    todo.append((item, True))
                    items = cast(dict[Any, Any], item)
                    children = items.values() if type(items) is dict else items
                    todo.extend((child, False) for child in children)
            elif not isinstance(item, _LEAVES):
                self.unsafe(_kind(item))


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list | tuple)


def _kind(value: Any) -> str:
    if isinstance(value, Global):
        return f"the class or function {quote(value.name)}"
    if isinstance(value, Blank):
        return "an array without contents"
    return f"a {kind_of(value)}"


# The effects of opcodes that only objects of classes need.
_OBJECTS = {
    **{ord(c): "makes an object of a class" for c in "io"},
    0x81: "makes an object of a class",
    0x92: "makes an object of a class",
    **dict.fromkeys((0x82, 0x83, 0x84), "requests a registered class"),
    **{ord(c): "asks the program for an object" for c in "PQ"},
    0x97: "asks the program for a buffer",
}

_Step = Callable[[_PickleReader], Any]


def _read_sized(read: Callable[[_PickleReader, int], None], layout: str) -> _Step:
    return lambda r: read(r, r.number(layout))


def _pushing(make: Callable[[_PickleReader], Any]) -> _Step:
    return lambda r: r.push(make(r))


def _protocol(r: _PickleReader) -> None:
    version = r.number("<B")
    if version not in range(2, 6):
        r.fail(f"expected a pickle of protocol 2 to 5, found {version}")


def _frame(r: _PickleReader) -> None:
    """Check that a frame, which only announces how much to read ahead, is complete."""
    size, left = r.number("<Q"), len(r.data) - r.position
    if size > left:
        r.fail(f"expected a frame of at most {left} bytes, found {size}")


def _tuple(count: int) -> _Step:
    return lambda r: r.push(tuple([r.pop() for _ in range(count)][::-1]))


def _long(r: _PickleReader) -> int:
    return int.from_bytes(r.take(r.number("<B")), "little", signed=True)


def _float(r: _PickleReader) -> float:
    return struct.unpack(">d", r.take(8))[0]


def _pair(r: _PickleReader) -> list[Any]:
    value, key = r.pop(), r.pop()
    return [key, value]


_STEPS: dict[int, _Step] = {
    0x80: _protocol,
    0x95: _frame,
    ord("0"): lambda r: r.pop(),
    ord("("): _pushing(lambda r: _MARK),
    ord("}"): _pushing(lambda r: {}),
    ord("]"): _pushing(lambda r: []),
    ord(")"): _pushing(lambda r: ()),
    ord("t"): _pushing(lambda r: tuple(r.pop_to_mark())),
    0x85: _tuple(1),
    0x86: _tuple(2),
    0x87: _tuple(3),
    ord("X"): _read_sized(_PickleReader.text, "<I"),
    0x8C: _read_sized(_PickleReader.text, "<B"),
    0x8D: _read_sized(_PickleReader.text, "<Q"),
    ord("B"): _read_sized(_PickleReader.byte_string, "<I"),
    ord("C"): _read_sized(_PickleReader.byte_string, "<B"),
    0x8E: _read_sized(_PickleReader.byte_string, "<Q"),
    ord("T"): _read_sized(_PickleReader.latin_string, "<I"),
    ord("U"): _read_sized(_PickleReader.latin_string, "<B"),
    ord("J"): _pushing(lambda r: r.number("<i")),
    ord("K"): _pushing(lambda r: r.number("<B")),
    ord("M"): _pushing(lambda r: r.number("<H")),
    0x8A: _pushing(_long),
    ord("G"): _pushing(_float),
    ord("N"): _pushing(lambda r: None),
    0x88: _pushing(lambda r: True),
    0x89: _pushing(lambda r: False),
    ord("a"): lambda r: r.append([r.pop()]),
    ord("e"): lambda r: r.append(r.pop_to_mark()),
    ord("s"): lambda r: r.set_items(_pair(r)),
    ord("u"): lambda r: r.set_items(r.pop_to_mark()),
    ord("h"): _read_sized(_PickleReader.recall, "<B"),
    ord("j"): _read_sized(_PickleReader.recall, "<I"),
    ord("q"): _read_sized(_PickleReader.remember, "<B"),
    ord("r"): _read_sized(_PickleReader.remember, "<I"),
    0x94: lambda r: r.remember(len(r.memo)),
    ord("c"): lambda r: r.import_name(r.line(), r.line()),
    0x93: _PickleReader.stack_global,
    ord("R"): _PickleReader.reduce,
    ord("b"): _PickleReader.build,
}
