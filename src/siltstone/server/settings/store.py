"""Makes the settings of one store: a frozen tree from defaults, ``siltstone.toml``, the environment and flags.

    defaults  <  siltstone.toml in the store's folder, or --config FILE  <  SILTSTONE_…  <  flags

A store is a folder with FOLDER/metadata.sqlite, FOLDER/wal/node-N and FOLDER/bucket, unless ``metadata``,
``wal_folder`` or ``buckets.0`` place a part elsewhere. ``listeners`` and ``advertised_listeners`` are the addresses
of a broker on the store, and ``listener.NAME.…`` says what the one of that name speaks. ``topics.…`` are defaults of
topic configurations, such as ``topics.retention.ms``. This module reads the settings file and touches nothing else on
the disk. ``values`` parses single values, ``tree`` builds the tree, ``components`` makes objects from it.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.settings import BrokerSettings
from siltstone.foundation.credentials import shown_properties, without_url_credentials
from siltstone.metadata.store.opening import shown_url
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import GRACE_PERIOD_MS
from siltstone.model.objects import DEFAULT_BUCKET_ID
from siltstone.object_store.backoff import RetrySettings
from siltstone.object_store.bandwidth.grades import BandwidthSettings
from siltstone.offline.settings import CompactionSettings, MaintenanceSettings, TableSettings
from siltstone.server.network.listener_settings import PLAIN, ListenerSettings
from siltstone.server.network.settings import NetworkSettings
from siltstone.server.settings.admin import AdminSettings
from siltstone.server.settings.layers import CATALOG_PREFIX, Layer, environment_layer, file_layer, flags_layer
from siltstone.server.settings.listeners import (
    LISTENER_PREFIX,
    listeners_of,
    parse_listener_setting,
    printed_listeners,
)
from siltstone.server.settings.tree import build_tree, settings_of, unknown_key, values_of
from siltstone.server.settings.values import (
    Setting,
    SettingRefused,
    format_setting,
    parse_setting,
    topic_config_text,
)
from siltstone.stream_engine.settings import EngineSettings, ReadSettings
from siltstone.topic_configs.table import written_defaults

SETTINGS_FILE = "siltstone.toml"
DEFAULT_LISTENER = "127.0.0.1:9092"


class SweepSettings(msgspec.Struct, frozen=True):
    """``grace_period_ms``: how long a destroyed object stays in its bucket before the sweep deletes it."""

    grace_period_ms: int = GRACE_PERIOD_MS


class Tuning(msgspec.Struct, frozen=True):
    """The settings whose defaults are in ``model.limits``, by part of the system."""

    engine: EngineSettings = EngineSettings()
    read: ReadSettings = ReadSettings()
    retry: RetrySettings = RetrySettings()
    bandwidth: BandwidthSettings = BandwidthSettings()
    compaction: CompactionSettings = CompactionSettings()
    sweep: SweepSettings = SweepSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    broker: BrokerSettings = BrokerSettings()
    groups: GroupSettings = GroupSettings()
    network: NetworkSettings = NetworkSettings()
    admin: AdminSettings = AdminSettings()


class StoreSettings(msgspec.Struct, frozen=True):
    """The places of a store's parts, the addresses of a broker on it, and all tuning."""

    folder: Path
    metadata: str
    wal_folder: Path
    buckets: dict[int, str]
    listeners: str = DEFAULT_LISTENER
    advertised_listeners: str = ""
    listener_security_protocol_map: str = ""
    named_listeners: dict[str, ListenerSettings] = {}
    tables: TableSettings = TableSettings()
    tuning: Tuning = Tuning()

    @property
    def engine(self) -> EngineSettings:
        return self.tuning.engine

    @property
    def read(self) -> ReadSettings:
        return self.tuning.read

    @property
    def broker(self) -> BrokerSettings:
        return self.tuning.broker

    @property
    def groups(self) -> GroupSettings:
        return self.tuning.groups

    @property
    def network(self) -> NetworkSettings:
        return self.tuning.network

    @property
    def admin(self) -> AdminSettings:
        return self.tuning.admin

    @property
    def admin_listener(self) -> ListenerSettings:
        """What ``listener.ADMIN.*`` says of the listeners of metrics and health."""
        return self.named_listeners.get("ADMIN", PLAIN)

    @property
    def retry(self) -> RetrySettings:
        return self.tuning.retry

    @property
    def bandwidth(self) -> BandwidthSettings:
        return self.tuning.bandwidth

    @property
    def compaction(self) -> CompactionSettings:
        return self.tuning.compaction

    @property
    def sweep(self) -> SweepSettings:
        return self.tuning.sweep

    @property
    def maintenance(self) -> MaintenanceSettings:
        return self.tuning.maintenance

    def __repr__(self) -> str:
        """Shows not every field, because the URL of the metadata may hold a password."""
        return f"StoreSettings({str(self.folder)!r}, {shown_url(self.metadata)!r})"

    def __str__(self) -> str:
        return "\n".join(f"{key} = {value}" for key, value in printed_settings(self))


PLACES: tuple[Setting, ...] = (
    Setting("metadata", str, None),
    Setting("wal_folder", str, None),
    Setting("listeners", str, DEFAULT_LISTENER),
    Setting("advertised_listeners", str, None),
    Setting("listener_security_protocol_map", str, None),
    Setting("tables.location", str, None),
    Setting("tables.registry", str, None),
    Setting("tables.catalog.type", str, None),
    Setting("tables.catalog.uri", str, None),
)
SETTINGS: dict[str, Setting] = {setting.key: setting for setting in (*PLACES, *settings_of(Tuning))}
"""Every key but ``buckets.N``, ``topics.…`` and ``listener.NAME.…``."""

TOPICS_PREFIX = "topics."

COMMAND_LINE = "command line"
_LISTS = frozenset({
    "listeners", "advertised_listeners", "listener_security_protocol_map", "admin.listeners",
    "admin.maintenance_listeners", "admin.allowed_hosts",
})  # fmt: skip


def load_settings(
    folder: Path,
    *,
    config: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    origin: str = COMMAND_LINE,
) -> StoreSettings:
    """Loads the settings of the store at ``folder``, which need not exist. ``defaults`` override those of the tree and
    nothing else. ``origin`` names the source of ``flags`` in error texts. Raises SettingRefused."""
    folder = folder.absolute()
    layers = [
        Layer("defaults", dict(defaults or {})),
        *_file_layers(folder, config),
        environment_layer(environment, SETTINGS),
        flags_layer(flags or {}, origin),
    ]
    return _settings_of_values(folder, _merged(layers))


def _file_layers(folder: Path, config: Path | None) -> Iterator[Layer]:
    if config is not None:
        yield file_layer(config)
    elif _exists(folder, folder / SETTINGS_FILE):
        yield file_layer(folder / SETTINGS_FILE)


def _exists(folder: Path, path: Path) -> bool:
    """Returns whether the folder exists. Raises SettingRefused, with the name of the folder, when it is a file or may
    not be entered."""
    try:
        if folder.is_file():
            raise SettingRefused(f"{folder} is a file, and a store is a folder: name another with --store")
        return path.exists()
    except OSError as failure:
        raise SettingRefused(
            f"the store's folder {folder} cannot be entered: {failure.strerror}; allow this user to read and write in "
            "it, or name another with --store"
        ) from failure


def _merged(layers: Sequence[Layer]) -> dict[str, object]:
    return {key: value for layer in layers for key, value in _parsed_layer(layer)}


def _parsed_layer(layer: Layer) -> Iterator[tuple[str, object]]:
    for key, raw in layer.values.items():
        if key.startswith("buckets."):
            yield (
                _checked_bucket(key, layer.origin),
                parse_setting(Setting(key, str, None), raw, origin=layer.origin, is_text=layer.is_text),
            )
        elif key.startswith(TOPICS_PREFIX):
            yield key, _topic_text(key, raw)
        elif key.startswith(LISTENER_PREFIX):
            yield parse_listener_setting(key, raw, origin=layer.origin, is_text=layer.is_text)
        elif key.startswith(CATALOG_PREFIX):
            yield key, str(raw).lower() if isinstance(raw, bool) else str(raw)
        elif (setting := SETTINGS.get(key)) is not None:
            value = _joined(raw) if key in _LISTS else raw
            yield key, parse_setting(setting, value, origin=layer.origin, is_text=layer.is_text)
        else:
            raise unknown_key(key, SETTINGS, layer.origin)


def _topic_text(key: str, raw: object) -> str:
    """Returns the value of a topic configuration as text, which Kafka expects. A TOML file may also have a number or a
    boolean, and every source may write ``1d`` for 86400000 or ``16MiB`` for 16777216."""
    return topic_config_text(key, str(raw).lower() if isinstance(raw, bool) else str(raw))


def _joined(raw: object) -> object:
    """Joins a list with commas: a TOML file may write several listeners as a list."""
    if isinstance(raw, list) and all(isinstance(part, str) for part in raw):
        return ",".join(raw)
    return raw


def _checked_bucket(key: str, origin: str) -> str:
    number = key.removeprefix("buckets.")
    if not (number.isascii() and number.isdigit()):
        raise SettingRefused(f"{origin}: {key} is not a setting; buckets are numbered: buckets.0, buckets.1")
    return f"buckets.{int(number)}"


def _settings_of_values(folder: Path, values: Mapping[str, object]) -> StoreSettings:
    tuning = build_tree(Tuning, {**values, "broker.topic_defaults": _topic_defaults(values)})
    buckets = {
        int(key.removeprefix("buckets.")): str(url)
        for key, url in values.items()
        if key.startswith("buckets.")
    }
    buckets.setdefault(DEFAULT_BUCKET_ID, (folder / "bucket").as_uri())
    wal_folder = values.get("wal_folder") or f"wal/node-{tuning.engine.node_id}"
    return StoreSettings(
        folder=folder,
        metadata=str(values.get("metadata") or _sqlite_url(folder / "metadata.sqlite")),
        wal_folder=folder / str(wal_folder),
        buckets=dict(sorted(buckets.items())),
        listeners=str(values.get("listeners") or DEFAULT_LISTENER),
        advertised_listeners=str(values.get("advertised_listeners") or ""),
        listener_security_protocol_map=str(values.get("listener_security_protocol_map") or ""),
        named_listeners=listeners_of(folder, values),
        tables=_tables(folder, values),
        tuning=tuning,
    )


def _tables(folder: Path, values: Mapping[str, object]) -> TableSettings:
    """Completes the settings of tables. By default tables are in FOLDER/tables, and so is an SQL catalog on SQLite; a
    catalog that the settings name by its type or its URI is not changed."""
    location = str(values.get("tables.location") or (folder / "tables").as_uri())
    named = {
        key.removeprefix(CATALOG_PREFIX): str(value)
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


def _topic_defaults(values: Mapping[str, object]) -> dict[str, str]:
    """Raises SettingRefused."""
    named = {
        key.removeprefix(TOPICS_PREFIX): str(text)
        for key, text in values.items()
        if key.startswith(TOPICS_PREFIX)
    }
    try:
        return written_defaults(named)
    except InvalidRequest as refusal:
        raise SettingRefused(f"settings in [topics] are not allowed: {refusal}") from refusal


def _sqlite_url(path: Path) -> str:
    return path.as_uri().replace("file://", "sqlite://", 1)


def printed_settings(settings: StoreSettings) -> Iterator[tuple[str, str]]:
    """Yields every key with its value, written as in a settings file."""
    yield "metadata", shown_url(settings.metadata)
    yield "wal_folder", str(settings.wal_folder)
    yield "listeners", settings.listeners
    yield "advertised_listeners", settings.advertised_listeners
    yield "listener_security_protocol_map", settings.listener_security_protocol_map
    yield from printed_listeners(settings.named_listeners)
    yield from ((f"buckets.{number}", url) for number, url in settings.buckets.items())
    yield from ((f"{TOPICS_PREFIX}{name}", text) for name, text in settings.broker.topic_defaults.items())
    yield "tables.location", settings.tables.location
    yield "tables.registry", without_url_credentials(settings.tables.registry)
    for name, text in shown_properties(settings.tables.catalog).items():
        yield f"{CATALOG_PREFIX}{name}", text
    for setting, value in values_of(settings.tuning):
        yield setting.key, format_setting(setting, value)
