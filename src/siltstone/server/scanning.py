"""``siltstone.scan``: the records of topics in Python, without Spark, and without a broker but for a tail.

``open_source`` finds the store for Spark's data source, too: a folder, or the URLs of its metadata and its buckets.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.image import ImageView
from siltstone.metadata.store_id import claimed_url
from siltstone.model.objects import DEFAULT_BUCKET_ID
from siltstone.offline.context import MaintenanceContext
from siltstone.record_columns.arrow import require_arrow
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import random_token, system_randomness
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.renewal import PinRenewal
from siltstone.scanning.result import Scan
from siltstone.scanning.scan import plan_scan
from siltstone.server.components import Store, missing_folder, open_buckets, open_metadata
from siltstone.server.settings.store import StoreSettings, load_settings


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
    of ``scanning.words.scan_request``: ``columns``, ``start``, ``end``, ``partitions``, ``headers``, ``tail``,
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


@contextmanager
def open_source(
    place: Path | str | Store | None, *, metadata: str | None = None, buckets: Mapping[int, str] | None = None
) -> Iterator[MaintenanceContext]:
    """Opens what a scan is planned with: ``place`` is a folder, the URL of the metadata, or an opened store; or else
    ``metadata`` is that URL, and ``buckets`` their URLs, which the metadata knows if a broker has ever run. Raises
    ScanRefused, StoreNotFound, and what opening a store raises."""
    if isinstance(place, Store):
        yield place.context
        return
    if isinstance(place, str) and "://" in place:
        place, metadata = None, place
    if (place is None) == (metadata is None):
        raise ScanRefused(
            "name the store either by its folder (store) or by the URL of its metadata (metadata)"
        )
    if metadata is None:
        assert place is not None
        settings = load_settings(Path(place), flags=_bucket_flags(buckets), origin="scan")
    else:
        folder = Path(unquote(urlsplit(metadata).path)).parent
        settings = StoreSettings(folder, metadata, folder / "wal", dict(buckets or {}))
    clock, rng = SystemClock(), system_randomness()
    with (
        closing(open_metadata(settings, clock, rng, create=False)) as client,
        closing(
            open_buckets(
                _at_its_buckets(settings, client.image),
                create=False,
                removed=bucket_list_of(client.image).removed,
            )
        ) as opened,
    ):
        opened.follow(lambda: bucket_list_of(client.image))
        yield MaintenanceContext(client, opened, clock, rng)


def _bucket_flags(buckets: Mapping[int, str] | None) -> dict[str, str]:
    return {f"buckets.{number}": url for number, url in (buckets or {}).items()}


def _at_its_buckets(settings: StoreSettings, image: ImageView) -> StoreSettings:
    """Returns the settings with the URLs at which a node has claimed the buckets, if the settings name none, or a
    folder that is not there: a broker may have been given its buckets at the command line."""
    if settings.buckets and not any(map(missing_folder, settings.buckets.values())):
        return settings
    claimed = {number: claimed_url(image, number) for number in range(_BUCKETS_MAX)}
    found = {number: url for number, url in claimed.items() if url}
    beside = {DEFAULT_BUCKET_ID: (settings.folder / "bucket").as_uri()}
    return replace(settings, buckets=found or settings.buckets or beside)


_BUCKETS_MAX = 64
"""Bucket numbers that are looked up; stores have a handful of buckets."""
