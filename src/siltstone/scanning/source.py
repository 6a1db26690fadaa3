"""Opens what a scan is planned with: the metadata and the buckets of a store, found by its folder, or by the URLs of
both. Spark's data source and ``siltstone.scan`` open theirs here."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.image import ImageView
from siltstone.metadata.store_id import claimed_url
from siltstone.model.objects import DEFAULT_BUCKET_ID
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.opening.settings import StoreSettings, load_store_settings
from siltstone.offline.opening.store import Store, missing_folder, open_buckets, open_metadata
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from siltstone.scanning.failures import ScanRefused

_BUCKETS_MAX = 64
"""Bucket numbers that are looked up; stores have a handful of buckets."""


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
    settings = source_settings(place, metadata=metadata, buckets=buckets)
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


def source_settings(
    place: Path | str | None, *, metadata: str | None = None, buckets: Mapping[int, str] | None = None
) -> StoreSettings:
    """Returns the settings of the store that ``open_source`` opens for these words. Raises ScanRefused,
    SettingRefused."""
    if isinstance(place, str) and "://" in place:
        place, metadata = None, place
    if (place is None) == (metadata is None):
        raise ScanRefused(
            "name the store either by its folder (store) or by the URL of its metadata (metadata)"
        )
    if metadata is None:
        assert place is not None
        return load_store_settings(Path(place), flags=_bucket_flags(buckets), origin="scan")
    folder = Path(unquote(urlsplit(metadata).path)).parent
    return StoreSettings(folder, metadata, dict(buckets or {}))


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
