"""``siltstone.open_store``: opens a store from Python, to inspect and maintain it without a broker."""

from collections.abc import Mapping
from pathlib import Path

from siltstone.server import components
from siltstone.server.components import Store
from siltstone.server.settings.store import StoreSettings, load_settings


def open_store(
    place: Path | str | StoreSettings, settings: Mapping[str, str] | None = None, *, create: bool = False
) -> Store:
    """Opens the store in a folder; leaving the ``with`` closes it.

    >>> with siltstone.open_store("./siltstone-data") as store:
    ...     print(siltstone.maintenance.plan(store))

    ``settings`` has values by key, such as ``{"buckets.0": "s3://bucket/prefix"}``; they override the settings file
    of the folder and the environment. Raises SettingRefused, StoreNotFound if there is no store and ``create`` is
    false, and what opening the metadata and the buckets raises.
    """
    if isinstance(place, StoreSettings):
        assert not settings, "settings are settled already"
        return components.open_store(place, create=create)
    return components.open_store(
        load_settings(Path(place), flags=settings, origin="open_store(settings=…)"), create=create
    )
