"""Dictionaries of words."""

from __future__ import annotations

from collections.abc import Mapping

UNKNOWN = "<unk>"


def ids_by_count(counts: Mapping[bytes | str, int], cutoff: int) -> dict[bytes | str, int]:
    """Number from 0 the words that occur more than `cutoff` times, the most frequent first.

    Words with the same count are in the order of their bytes. "<unk>" has the last id.
    """

    def place(word: bytes | str) -> tuple[int, bytes]:
        return -counts[word], word.encode() if isinstance(word, str) else word

    words = sorted((word for word, count in counts.items() if count > cutoff), key=place)
    return {word: number for number, word in enumerate([*words, UNKNOWN])}


def sentence_pair(line: bytes) -> tuple[list[str], list[str]] | None:
    """Split a line at its tab into the words of two sentences; None for another line."""
    parts = line.decode().strip().split("\t")
    return (parts[0].split(), parts[1].split()) if len(parts) == 2 else None
