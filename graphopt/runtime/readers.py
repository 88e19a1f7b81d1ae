"""Feeds that a program's own loaders give (`start()` and `reset()` of fluid's DataLoader)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from graphopt.errors import FeedError
from graphopt.ir.program import FeedSource
from graphopt.runtime.arrays import Feed


def with_readers(readers: list[FeedSource], feed: Feed, count: int) -> Feed:
    """The feed of a run on `count` devices, with a batch for each from the program's loaders.

    A loader whose variables the script feeds itself gives nothing. Raises EOFException at the end
    of a loader's epoch, FeedError for one that is not started.
    """
    fed = _names(feed)
    silent = [reader for reader in readers if not fed.issuperset(reader.names)]
    if not silent:
        return feed
    if count > 1 and fed:
        raise FeedError(
            f"a program with a loader on {count} devices cannot be fed {', '.join(sorted(fed))} as "
            "well: let the loader's generator yield it"
        )
    feeds: list[dict[str, object]] = [{} for _ in range(count)]
    for reader in silent:
        for whole, part in zip(feeds, reader.read(count), strict=False):
            whole.update(part)
    feeds = [whole for whole in feeds if whole]
    if count > 1:
        return feeds
    own = feed[0] if isinstance(feed, (list, tuple)) and feed else feed
    return feeds[0] | dict(cast("Mapping[str, object]", own or {}))


def _names(feed: Feed) -> set[str]:
    parts = feed if isinstance(feed, (list, tuple)) else [feed or {}]
    return {name for part in parts if isinstance(part, dict) for name in part}
