"""``siltstone.scan``: the records of topics in Python, without Spark, and without a broker but for a tail."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from siltstone.offline.opening.store import Store
from siltstone.record_columns.arrow import require_arrow
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import random_token, system_randomness
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.renewal import PinRenewal
from siltstone.scanning.result import Scan
from siltstone.scanning.scan import plan_scan
from siltstone.scanning.source import open_source


def scan(
    topics: str | Sequence[str],
    *,
    store: Path | str | Store,
    renew: bool = False,
    **words: Any,
) -> Scan:
    """Plans a scan of one topic or several. Nothing is read yet but the metadata; the plan is of this moment.

    >>> siltstone.scan("flights", store="./siltstone-data", columns=["offset", "value"]).to_polars()

    ``store`` is the folder of a store, the URL of its metadata, or an opened store. ``words`` are the keyword arguments
    of ``scanning.arguments.scan_request``: ``columns``, ``start``, ``end``, ``partitions``, ``headers``, ``tail``,
    ``timestamp_from``, ``timestamp_until``, ``value``, ``lease`` and others.

    With ``renew`` the pin that keeps the objects of the plan is renewed for as long as the Scan is in use, and is ended
    when the Scan is closed or collected as garbage.

    Raises ArrowMissing without pyarrow, ColumnUnknown, TopicNotThere, ScanRefused, DataLost, OffsetBeyondEnd,
    TailNotReadable, what settling a value format raises, and what opening a store raises.
    """
    require_arrow()
    request = scan_request(topics, **words)
    if not renew or not request.lease_ms:
        with open_source(store) as source:
            return Scan(plan_scan(source, request))
    clock, rng = SystemClock(), system_randomness()
    request = replace(request, pin_token=random_token(rng))
    with open_source(store) as source:
        found = Scan(plan_scan(source, request))
    renewal = PinRenewal(lambda: open_source(store), request.pin_token, request.lease_ms, clock)
    found.keep(renewal)
    return found
