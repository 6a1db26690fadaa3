"""``siltstone.open_store``: a store to look at and maintain, from Python, with no broker."""

from collections.abc import Mapping
from pathlib import Path

from siltstone.server import components
from siltstone.server.components import Store
from siltstone.server.settings.store import StoreSettings, load_settings


def open_store(
    place: Path | str | StoreSettings, settings: Mapping[str, str] | None = None, *, create: bool = False
) -> Store:
    """The store in a folder; ``with`` closes it.

    >>> with siltstone.open_store("./siltstone-data") as store:
    ...     print(siltstone.maintenance.plan(store))

    ``settings``: any by its key, ``{"buckets.0": "s3://bucket/prefix"}``, above those of the folder's file and of the
    environment. Raises StoreNotFound unless ``create``, SettingRefused, and what the metadata and the buckets raise.
    """
    if isinstance(place, StoreSettings):
        assert not settings, "settings are settled already"
        return components.open_store(place, create=create)
    return components.open_store(
        load_settings(Path(place), flags=settings, origin="open_store(settings=…)"), create=create
    )
