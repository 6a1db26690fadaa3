"""The rows of a response by topic and partition, in the order of the request: several APIs have them in that shape."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Row = TypeVar("Row")
TopicRow = TypeVar("TopicRow")


def rows_by_topic(
    asked: Iterable[tuple[str, Sequence[int]]],
    row: Callable[[str, int], Row],
    topic_row: Callable[[str, list[Row]], TopicRow],
) -> list[TopicRow]:
    """``asked``: the names of topics, each with the partitions that the request names. ``row`` makes the row of a
    partition, and ``topic_row`` puts those of a topic together."""
    return [topic_row(name, [row(name, index) for index in indexes]) for name, indexes in asked]
