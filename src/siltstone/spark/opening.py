"""``siltstone.open_store``: opens a store from Python, to inspect and maintain it without a broker, on any Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from siltstone.offline.opening import store as opening
from siltstone.offline.opening.settings import StoreSettings, load_store_settings
from siltstone.offline.opening.store import Store
from siltstone.offline.tasks.runner import Runner


def open_store(
    place: Path | str | StoreSettings, settings: Mapping[str, str] | None = None, *, create: bool = False
) -> Store:
    """Opens the store in a folder; leaving the ``with`` closes it.

    >>> with siltstone.open_store("./siltstone-data") as store:
    ...     print(siltstone.maintenance.plan(store))

    ``settings`` has values by key, such as ``{"buckets.0": "s3://bucket/prefix"}``; they override the settings file
    of the folder and the environment. Settings of nodes are allowed and have no effect. Raises SettingRefused,
    StoreNotFound if there is no store and ``create`` is false, and what opening the metadata and the buckets raises.
    """
    if isinstance(place, StoreSettings):
        assert not settings, "settings are settled already"
    else:
        place = load_store_settings(Path(place), flags=settings, origin="open_store(settings=…)")
    return opening.open_store(place, create=create, open_runner=_runner_on)


def _runner_on(spark: Any) -> Runner:
    from siltstone.spark.choice import runner_on  # noqa: PLC0415  most programs that open a store need no runner

    return runner_on(spark)
