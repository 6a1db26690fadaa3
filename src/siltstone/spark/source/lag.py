"""``lag`` and ``backlog``: how far a query is behind its topics.

Spark's progress has the end offset of the last micro-batch and the latest offset that the source has seen, each as the
position that the checkpoint holds. Their difference is what waits, partition by partition. Kafka's connector publishes
three figures of it as metrics. A data source in Python cannot publish metrics; ``lag`` returns the lag of every
partition instead. The sums, with bytes and seconds, stand in the report itself: in ``latestOffset`` as ``backlog``.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from siltstone.scanning.streaming.position import StreamPosition, decode_position

BACKLOG = "backlog"
"""Beside the topics in the latest offset of a report. Positions are read without it."""


def lag(query: Any) -> dict[str, int]:
    """Returns the number of offsets, by partition such as ``flights-0``, that a query has not read yet; empty before
    its first micro-batch. ``query`` is a StreamingQuery, or one of its progress reports. All sources of format
    ``siltstone`` count.

    >>> siltstone.spark.lag(query)
    {'flights-0': 0, 'flights-1': 1200}
    """
    behind: dict[str, int] = {}
    for source in _sources(query):
        end, latest = _position(source.get("endOffset")), _position(source.get("latestOffset"))
        if end is None or latest is None:
            continue
        for key, offset in latest.offsets.items():
            name = latest.partition_name(key)
            behind[name] = behind.get(name, 0) + max(0, offset - end.offsets.get(key, 0))
    return dict(sorted(behind.items()))


def backlog(query: Any) -> dict[str, float]:
    """Returns what a query has not read yet: ``records`` (offsets), ``bytes`` as stored, and ``seconds``, for how long
    the oldest of it has been in the store. ``query`` is a StreamingQuery, or one of its progress reports. Records and
    bytes of several sources are added, the longest time counts.

    >>> siltstone.spark.backlog(query)
    {'records': 1200, 'bytes': 61440, 'seconds': 3.5}
    """
    found: dict[str, float] = {"records": 0, "bytes": 0, "seconds": 0.0}
    for source in _sources(query):
        shown = (_form(source.get("latestOffset")) or {}).get(BACKLOG)
        if shown is None:
            continue
        found["records"] += shown["records"]
        found["bytes"] += shown["bytes"]
        found["seconds"] = max(found["seconds"], shown["seconds"])
    return found


def _sources(query: Any) -> Sequence[Mapping[str, Any]]:
    """Returns the sources of the last progress; none before the first micro-batch."""
    progress = query if isinstance(query, Mapping) or hasattr(query, "sources") else query.lastProgress
    if progress is None:
        return ()
    found: Sequence[Mapping[str, Any]] = (
        json.loads(progress.json)["sources"] if hasattr(progress, "json") else progress["sources"]
    )
    return found


def _position(value: Any) -> StreamPosition | None:
    form = _form(value)
    return None if form is None else decode_position(form)


def _form(value: Any) -> Mapping[str, Any] | None:
    """Returns the position of one source; None for another format's, and where there is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, Mapping) or not {"store", "t", "v"} <= value.keys():
        return None
    return value
