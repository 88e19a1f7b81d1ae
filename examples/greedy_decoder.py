"""Teach a small recurrent network four words, then let it spell them: a greedy decoder in a loop.

Training unrolls the network over the letters of the words. Spelling starts from the first letter
and repeats the same step in `static.nn.while_loop` until the network says that the word ends, which
only the run can know; the letters go into a tensor of fixed size. Run it from the root of the
repository; it fails when a word comes out wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import graphopt as paddle
import graphopt.nn.functional as F
import graphopt.static as static

WORDS = ("tree", "river", "stone", "cloudy")
LETTERS = "." + "".join(sorted(set("".join(WORDS))))  # the first one ends a word
LONGEST = max(map(len, WORDS)) + 1
SIZE = 24


def step(letter: static.Variable, hidden: static.Variable) -> tuple[static.Variable, ...]:
    """Compute the next letter's scores and the next state, for letters [n], states [n, SIZE]."""
    seen = static.nn.embedding(letter, [len(LETTERS), SIZE], param_attr="letters")
    both = paddle.concat([seen, hidden], axis=1)
    attrs = {"weight_attr": paddle.ParamAttr("step.w"), "bias_attr": paddle.ParamAttr("step.b")}
    hidden = static.nn.fc(both, SIZE, activation="tanh", **attrs)
    attrs = {"weight_attr": paddle.ParamAttr("out.w"), "bias_attr": paddle.ParamAttr("out.b")}
    return static.nn.fc(hidden, len(LETTERS), **attrs), hidden


def encoded() -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Encode the words as numbers of letters, padded with the letter that ends a word."""
    return np.array([[LETTERS.index(c) for c in word.ljust(LONGEST, ".")] for word in WORDS])


def train(executor: static.Executor, steps: int = 150) -> float:
    """Build and run the training program; return the last loss."""
    words = static.data("words", [None, LONGEST], "int64")
    hidden = paddle.full([len(WORDS), SIZE], 0.0)
    losses: list[static.Variable] = []
    for at in range(LONGEST - 1):
        scores, hidden = step(words[:, at], hidden)
        losses.append(paddle.mean(F.cross_entropy(scores, words[:, at + 1])))
    loss = paddle.add_n(losses)
    paddle.optimizer.Adam(0.02).minimize(loss)
    executor.run(static.default_startup_program())
    for _ in range(steps):
        (value,) = executor.run(feed={"words": encoded()}, fetch_list=[loss])
    return float(value)


def speller() -> static.Variable:
    """Build a loop that spells the word that starts with `first` (int64 [1]): letters [LONGEST]."""
    first = static.data("first", [1], "int64")
    places = paddle.arange(LONGEST, dtype="int64")

    def going(at: static.Variable, letter: static.Variable, *_: static.Variable) -> static.Variable:
        return paddle.logical_and(at < LONGEST, letter != 0)

    def spell(at: static.Variable, letter: static.Variable, *state: static.Variable) -> list[Any]:
        hidden, text = state
        text = paddle.where(places == at, letter, text)
        scores, hidden = step(letter, hidden)
        return [at + 1, paddle.argmax(scores, axis=1), hidden, text]

    start = [paddle.full([1], 0, "int64"), first * 1]
    start += [paddle.full([1, SIZE], 0.0), paddle.full([LONGEST], 0, "int64")]
    return static.nn.while_loop(going, spell, start)[-1]


def main() -> dict[str, str]:
    """Train, spell each word from its first letter, and compare."""
    paddle.seed(0)
    executor = static.Executor(paddle.CPUPlace())
    print(f"loss {train(executor):.4f}")
    spelling = static.Program()
    with static.program_guard(spelling):
        text = speller()
    found: dict[str, str] = {}
    for word in WORDS:
        first = np.array([LETTERS.index(word[0])])
        (letters,) = executor.run(spelling, feed={"first": first}, fetch_list=[text])
        found[word] = "".join(LETTERS[i] for i in letters).rstrip(".")
        print(f"{word[0]} -> {found[word]}")
    assert all(word == spelt for word, spelt in found.items()), found
    return found


if __name__ == "__main__":
    main()
