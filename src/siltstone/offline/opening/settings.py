"""Makes the settings of a store: a frozen tree from defaults, ``siltstone.toml``, the environment and flags.

    defaults  <  siltstone.toml in the store's folder, or --config FILE  <  SILTSTONE_…  <  flags

A store is a folder with FOLDER/metadata.sqlite and FOLDER/bucket, unless ``metadata`` or ``buckets.0`` place a part
elsewhere. One file has the settings of the store and of its nodes (``server.settings.node``). A program without a node
checks the keys of the store and passes over the keys of nodes, so that a scan loads no settings of networks. This
module reads the settings file and touches nothing else on the disk. ``values`` parses single values, ``tree`` builds
the tree, ``store`` makes objects from it.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from siltstone.foundation.credentials import (
    FILE_REFERENCE,
    WAREHOUSE,
    file_of_reference,
    shown_properties,
    without_url_credentials,
)
from siltstone.metadata.store.opening import shown_url
from siltstone.model.limits import GRACE_PERIOD_MS, PRODUCER_ID_EXPIRATION_MS
from siltstone.model.objects import DEFAULT_BUCKET_ID
from siltstone.object_store.bandwidth.turns import BandwidthSettings
from siltstone.object_store.retrying import RetrySettings
from siltstone.offline.opening.layers import CATALOG_PREFIX, Layer, environment_layer, file_layer, flags_layer
from siltstone.offline.opening.tree import (
    build_tree,
    environment_name,
    sections_of,
    settings_of_sections,
    unknown_key,
    values_of,
)
from siltstone.offline.opening.values import Setting, SettingRefused, format_setting, parse_setting
from siltstone.offline.settings import CompactionSettings, MaintenanceSettings, TableSettings

SETTINGS_FILE = "siltstone.toml"
BUCKETS_PREFIX = "buckets."
COMMAND_LINE = "command line"


class SweepSettings(msgspec.Struct, frozen=True):
    """``grace_period_ms``: how long a destroyed object stays in its bucket before the sweep deletes it."""

    grace_period_ms: int = GRACE_PERIOD_MS


class StoreSettings(msgspec.Struct, frozen=True):
    """The places of a store's parts, and what maintenance and scans go by. ``producer_id_expiration_ms`` is the setting
    ``broker.producer_id_expiration_ms``: key compaction must not forget a producer that a broker remembers."""

    folder: Path
    metadata: str
    buckets: dict[int, str]
    tables: TableSettings = TableSettings()
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    retry: RetrySettings = RetrySettings()
    bandwidth: BandwidthSettings = BandwidthSettings()
    compaction: CompactionSettings = CompactionSettings()
    sweep: SweepSettings = SweepSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()

    def __repr__(self) -> str:
        """Shows not every field, because the URL of the metadata may hold a password."""
        return f"{type(self).__name__}({str(self.folder)!r}, {shown_url(self.metadata)!r})"

    def __str__(self) -> str:
        printed = (*printed_places(self), *printed_sections(self))
        return "\n".join(f"{key} = {value}" for key, value in printed)


STORE_PLACES: tuple[Setting, ...] = (
    Setting("metadata", str, None),
    Setting("tables.location", str, None),
    Setting("tables.registry", str, None),
    Setting("tables.catalog.type", str, None),
    Setting("tables.catalog.uri", str, None),
)
_PRODUCER_MEMORY = Setting("broker.producer_id_expiration_ms", int, PRODUCER_ID_EXPIRATION_MS)
STORE_SETTINGS: dict[str, Setting] = {
    setting.key: setting
    for setting in (*STORE_PLACES, _PRODUCER_MEMORY, *settings_of_sections(StoreSettings))
}
"""Every key but ``buckets.N``."""

NODE_SECTIONS = ("engine", "read", "broker", "groups", "network", "admin", "listener", "topics")
NODE_PLACES = ("wal_folder", "listeners", "advertised_listeners", "listener_security_protocol_map")
_NODE_VARIABLES = tuple(environment_name(f"{section}.") for section in NODE_SECTIONS)
"""What the variables of sections begin with, such as ``SILTSTONE_ENGINE_``."""


def load_store_settings(
    folder: Path,
    *,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, str] | None = None,
    origin: str = COMMAND_LINE,
) -> StoreSettings:
    """Loads the settings of the store at ``folder``, which need not exist. The keys of a node are passed over.
    ``origin`` names the source of ``flags`` in error texts. Raises SettingRefused."""
    folder = folder.absolute()
    layers = [
        *file_layers(folder, None),
        environment_layer(_without_nodes(environment), STORE_SETTINGS),
        flags_layer(flags or {}, origin),
    ]
    values = {key: value for layer in layers for key, value in _parsed_layer(layer)}
    return StoreSettings(**store_fields(folder, values))


def _without_nodes(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment without the variables of nodes."""
    nodes = {environment_name(key) for key in NODE_PLACES}
    ours = {environment_name(key) for key in STORE_SETTINGS}
    return {
        name: value
        for name, value in environment.items()
        if name in ours or not (name in nodes or name.startswith(_NODE_VARIABLES))
    }


def _parsed_layer(layer: Layer) -> Iterator[tuple[str, object]]:
    for key, raw in layer.values.items():
        if is_of_node(key):
            continue
        yield parsed_value(key, raw, layer, STORE_SETTINGS)


def is_of_node(key: str) -> bool:
    """Returns whether a key is one of nodes alone: a program without a node does not know whether it exists."""
    return key not in STORE_SETTINGS and (key in NODE_PLACES or key.partition(".")[0] in NODE_SECTIONS)


# -- what the settings of a node are made with, too -------------------------------------------------------------


def file_layers(folder: Path, config: Path | None) -> Iterator[Layer]:
    """Yields the layer of the settings file if there is one. Raises SettingRefused, with the name of the folder, when
    the folder is a file or may not be entered."""
    if config is not None:
        yield file_layer(config)
    elif _exists(folder, folder / SETTINGS_FILE):
        yield file_layer(folder / SETTINGS_FILE)


def _exists(folder: Path, path: Path) -> bool:
    try:
        if folder.is_file():
            raise SettingRefused(f"{folder} is a file, and a store is a folder: name another with --store")
        return path.exists()
    except OSError as failure:
        raise SettingRefused(
            f"the store's folder {folder} cannot be entered: {failure.strerror}; allow this user to read and write in "
            "it, or name another with --store"
        ) from failure


def parsed_value(key: str, raw: object, layer: Layer, known: Mapping[str, Setting]) -> tuple[str, object]:
    """Returns the key as the tree knows it, and the value. Raises SettingRefused, also for a key that is not
    ``known``."""
    if key.startswith(BUCKETS_PREFIX):
        return (
            _checked_bucket(key, layer.origin),
            parse_setting(Setting(key, str, None), raw, origin=layer.origin, is_text=layer.is_text),
        )
    if key.startswith(CATALOG_PREFIX):
        return key, str(raw).lower() if isinstance(raw, bool) else str(raw)
    if (setting := known.get(key)) is None:
        raise unknown_key(key, known, layer.origin)
    return key, parse_setting(setting, raw, origin=layer.origin, is_text=layer.is_text)


def _checked_bucket(key: str, origin: str) -> str:
    number = key.removeprefix(BUCKETS_PREFIX)
    if not (number.isascii() and number.isdigit()):
        raise SettingRefused(f"{origin}: {key} is not a setting; buckets are numbered: buckets.0, buckets.1")
    return f"{BUCKETS_PREFIX}{int(number)}"


def store_fields(folder: Path, values: Mapping[str, object]) -> dict[str, Any]:
    """Returns the fields of StoreSettings by name, with defaults below the folder. Raises SettingRefused."""
    buckets = {
        int(key.removeprefix(BUCKETS_PREFIX)): str(url)
        for key, url in values.items()
        if key.startswith(BUCKETS_PREFIX)
    }
    buckets.setdefault(DEFAULT_BUCKET_ID, (folder / "bucket").as_uri())
    return {
        "folder": folder,
        "metadata": str(values.get("metadata") or _sqlite_url(folder / "metadata.sqlite")),
        "buckets": dict(sorted(buckets.items())),
        "tables": _tables(folder, values),
        "producer_id_expiration_ms": values.get(_PRODUCER_MEMORY.key, PRODUCER_ID_EXPIRATION_MS),
        **{name: build_tree(kind, values, f"{name}.") for name, kind in sections_of(StoreSettings).items()},
    }


def _sqlite_url(path: Path) -> str:
    return path.as_uri().replace("file://", "sqlite://", 1)


def _tables(folder: Path, values: Mapping[str, object]) -> TableSettings:
    """Completes the settings of tables. By default tables are in FOLDER/tables, and so is an SQL catalog on SQLite; a
    catalog that the settings name by its type or its URI is not changed."""
    location = str(values.get("tables.location") or (folder / "tables").as_uri())
    named = {
        key.removeprefix(CATALOG_PREFIX): _catalog_value(folder, key, str(value))
        for key, value in values.items()
        if key.startswith(CATALOG_PREFIX)
    }
    if "type" not in named and "uri" not in named:
        named |= {"type": "sql", "uri": f"sqlite:///{folder / 'tables' / 'catalog.sqlite'}"}
    return TableSettings(
        location=location,
        catalog={"warehouse": location.partition("?")[0], **named},
        registry=str(values.get("tables.registry") or ""),
    )


def _catalog_value(folder: Path, key: str, written: str) -> str:
    """Returns a property of the catalog. A file with a secret is relative to the store's folder, like every other."""
    file = "" if key == f"{CATALOG_PREFIX}{WAREHOUSE}" else file_of_reference(written)
    return f"{FILE_REFERENCE}{folder / file}" if file else written


def printed_places(settings: StoreSettings) -> Iterator[tuple[str, str]]:
    """Yields the keys of the store's places with their values, written as in a settings file."""
    yield "metadata", shown_url(settings.metadata)
    for number, url in settings.buckets.items():
        yield f"{BUCKETS_PREFIX}{number}", without_url_credentials(url)
    yield "tables.location", without_url_credentials(settings.tables.location)
    yield "tables.registry", without_url_credentials(settings.tables.registry)
    for name, text in shown_properties(settings.tables.catalog).items():
        yield f"{CATALOG_PREFIX}{name}", text


def printed_sections(settings: StoreSettings) -> Iterator[tuple[str, str]]:
    """Yields the keys of all sections with their values. Any of them may be a URL, and have credentials."""
    for name in sections_of(type(settings)):
        for setting, value in values_of(getattr(settings, name), f"{name}."):
            yield setting.key, without_url_credentials(format_setting(setting, value))
