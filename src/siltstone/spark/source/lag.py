"""``lag``: how far a query is behind its topics.

Spark's progress has the end offset of the last micro-batch and the latest offset that the source has seen, each as the
position that the checkpoint holds. Their difference is what waits, partition by partition. Kafka's connector publishes
three figures of it as metrics. A data source in Python cannot publish metrics; this function returns the lag of every
partition instead.
"""

import json
from collections.abc import Mapping
from typing import Any

from siltstone.scanning.streaming.position import StreamPosition, decode_position


def lag(query: Any) -> dict[str, int]:
    """Returns the number of offsets, by partition such as ``flights-0``, that a query has not read yet; empty before
    its first micro-batch. ``query`` is a StreamingQuery, or one of its progress reports. All sources of format
    ``siltstone`` count.

    >>> siltstone.spark.lag(query)
    {'flights-0': 0, 'flights-1': 1200}
    """
    progress = query if isinstance(query, Mapping) or hasattr(query, "sources") else query.lastProgress
    if progress is None:
        return {}
    behind: dict[str, int] = {}
    for source in json.loads(progress.json)["sources"] if hasattr(progress, "json") else progress["sources"]:
        end, latest = _position(source.get("endOffset")), _position(source.get("latestOffset"))
        if end is None or latest is None:
            continue
        for key, offset in latest.offsets.items():
            name = latest.partition_name(key)
            behind[name] = behind.get(name, 0) + max(0, offset - end.offsets.get(key, 0))
    return dict(sorted(behind.items()))


def _position(value: Any) -> StreamPosition | None:
    """Returns the position of one source; None for another format's, and where there is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, Mapping) or not {"store", "t", "v"} <= value.keys():
        return None
    return decode_position(value)
