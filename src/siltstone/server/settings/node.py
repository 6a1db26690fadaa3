"""Makes the settings of a node: those of its store (``offline.opening.settings``), and those of its engine, its broker
and its listeners, from the same sources.

``wal_folder`` is FOLDER/wal/node-N unless it is set. ``listeners`` and ``advertised_listeners`` are the addresses of
the broker, and ``listener.NAME.…`` says what the one of that name speaks. ``topics.…`` are defaults of topic
configurations, such as ``topics.retention.ms``. Commands load these settings, too, so that a mistyped key is named
wherever a person types one. ``components`` makes objects from them.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.settings import BrokerSettings
from siltstone.model.errors import InvalidRequest
from siltstone.offline.opening.layers import Layer, environment_layer, flags_layer
from siltstone.offline.opening.settings import (
    COMMAND_LINE,
    STORE_PLACES,
    StoreSettings,
    file_layers,
    parsed_value,
    printed_places,
    printed_sections,
    store_fields,
)
from siltstone.offline.opening.tree import build_tree, sections_of, settings_of_sections
from siltstone.offline.opening.values import Setting, SettingRefused, topic_config_text
from siltstone.server.network.listener_settings import PLAIN, ListenerSettings
from siltstone.server.network.settings import NetworkSettings
from siltstone.server.settings.admin import AdminSettings
from siltstone.server.settings.listeners import (
    LISTENER_PREFIX,
    key_of_variable,
    listeners_of,
    parse_listener_setting,
    printed_listeners,
)
from siltstone.stream_engine.settings import EngineSettings, ReadSettings
from siltstone.topic_configs.table import written_defaults

DEFAULT_LISTENER = "127.0.0.1:9092"


class NodeSettings(StoreSettings, frozen=True, kw_only=True):
    """The settings of a store, and of a node on it."""

    wal_folder: Path
    listeners: str = DEFAULT_LISTENER
    advertised_listeners: str = ""
    listener_security_protocol_map: str = ""
    named_listeners: dict[str, ListenerSettings] = msgspec.field(default_factory=dict)
    engine: EngineSettings = EngineSettings()
    read: ReadSettings = ReadSettings()
    broker: BrokerSettings = BrokerSettings()
    groups: GroupSettings = GroupSettings()
    network: NetworkSettings = NetworkSettings()
    admin: AdminSettings = AdminSettings()

    @property
    def admin_listener(self) -> ListenerSettings:
        """What ``listener.ADMIN.*`` says of the listeners of metrics and health."""
        return self.named_listeners.get("ADMIN", PLAIN)

    def __str__(self) -> str:
        return "\n".join(f"{key} = {value}" for key, value in printed_settings(self))


PLACES: tuple[Setting, ...] = (
    *STORE_PLACES,
    Setting("wal_folder", str, None),
    Setting("listeners", str, DEFAULT_LISTENER),
    Setting("advertised_listeners", str, None),
    Setting("listener_security_protocol_map", str, None),
)
SETTINGS: dict[str, Setting] = {
    setting.key: setting for setting in (*PLACES, *settings_of_sections(NodeSettings))
}
"""Every key but ``buckets.N``, ``topics.…`` and ``listener.NAME.…``."""

TOPICS_PREFIX = "topics."

_LISTS = frozenset({
    "listeners", "advertised_listeners", "listener_security_protocol_map", "admin.listeners",
    "admin.maintenance_listeners", "admin.allowed_hosts", "network.max_connections_per_ip_overrides",
})  # fmt: skip


def load_node_settings(
    folder: Path,
    *,
    config: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    origin: str = COMMAND_LINE,
) -> NodeSettings:
    """Loads the settings of a node of the store at ``folder``, which need not exist. ``defaults`` override those of the
    tree and nothing else. ``origin`` names the source of ``flags`` in error texts. Raises SettingRefused."""
    folder = folder.absolute()
    layers = [
        Layer("defaults", dict(defaults or {})),
        *file_layers(folder, config),
        environment_layer(environment, SETTINGS, key_of_variable),
        flags_layer(flags or {}, origin),
    ]
    return _settings_of_values(folder, _merged(layers))


def _merged(layers: Sequence[Layer]) -> dict[str, object]:
    return {key: value for layer in layers for key, value in _parsed_layer(layer)}


def _parsed_layer(layer: Layer) -> Iterator[tuple[str, object]]:
    for key, raw in layer.values.items():
        if key.startswith(TOPICS_PREFIX):
            yield key, _topic_text(key, raw)
        elif key.startswith(LISTENER_PREFIX):
            yield parse_listener_setting(key, raw, origin=layer.origin, is_text=layer.is_text)
        else:
            yield parsed_value(key, _joined(raw) if key in _LISTS else raw, layer, SETTINGS)


def _topic_text(key: str, raw: object) -> str:
    """Returns the value of a topic configuration as text, which Kafka expects. A TOML file may also have a number or a
    boolean, and every source may write ``1d`` for 86400000 or ``16MiB`` for 16777216."""
    return topic_config_text(key, str(raw).lower() if isinstance(raw, bool) else str(raw))


def _joined(raw: object) -> object:
    """Joins a list with commas: a TOML file may write several listeners as a list."""
    if isinstance(raw, list) and all(isinstance(part, str) for part in raw):
        return ",".join(raw)
    return raw


def _settings_of_values(folder: Path, values: Mapping[str, object]) -> NodeSettings:
    values = {**values, "broker.topic_defaults": _topic_defaults(values)}
    nodes = sections_of(NodeSettings).keys() - sections_of(StoreSettings).keys()
    sections: dict[str, Any] = {
        name: build_tree(kind, values, f"{name}.")
        for name, kind in sections_of(NodeSettings).items()
        if name in nodes
    }
    if file := sections["admin"].metrics_token_file:
        sections["admin"] = msgspec.structs.replace(sections["admin"], metrics_token_file=str(folder / file))
    wal_folder = values.get("wal_folder") or f"wal/node-{sections['engine'].node_id}"
    return NodeSettings(
        **store_fields(folder, values),
        **sections,
        wal_folder=folder / str(wal_folder),
        listeners=str(values.get("listeners") or DEFAULT_LISTENER),
        advertised_listeners=str(values.get("advertised_listeners") or ""),
        listener_security_protocol_map=str(values.get("listener_security_protocol_map") or ""),
        named_listeners=listeners_of(folder, values),
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


def printed_settings(settings: NodeSettings) -> Iterator[tuple[str, str]]:
    """Yields every key with its value, written as in a settings file."""
    yield from printed_places(settings)
    yield "wal_folder", str(settings.wal_folder)
    yield "listeners", settings.listeners
    yield "advertised_listeners", settings.advertised_listeners
    yield "listener_security_protocol_map", settings.listener_security_protocol_map
    yield from printed_listeners(settings.named_listeners)
    yield from ((f"{TOPICS_PREFIX}{name}", text) for name, text in settings.broker.topic_defaults.items())
    yield from printed_sections(settings)
