"""Reads the settings of single listeners, ``listener.NAME.*``, out of the layers of settings.

A name is any that ``listeners`` gives, or ADMIN for the listeners of metrics and health. Variables of the environment
have names without dots, so ``SILTSTONE_LISTENER_EXTERNAL_TLS_KEY_FILE`` is read from its end.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from siltstone.model.access import SecurityProtocol
from siltstone.offline.opening.tree import ENVIRONMENT_PREFIX, unknown_key
from siltstone.offline.opening.values import Setting, SettingRefused, format_setting, parse_setting
from siltstone.server.network.listener_settings import InvalidListenerSetting, ListenerSettings

LISTENER_PREFIX = "listener."
ANY_NAME = "NAME"
_VARIABLE_PREFIX = f"{ENVIRONMENT_PREFIX}LISTENER_"


def settings_of_listener(name: str) -> dict[str, Setting]:
    """Returns every setting of one listener by its key."""
    return {
        f"{LISTENER_PREFIX}{name}.{field.name}": Setting(
            f"{LISTENER_PREFIX}{name}.{field.name}",
            field.type if isinstance(field.type, type) else SecurityProtocol,
            field.default,
        )
        for field in msgspec.structs.fields(ListenerSettings)
    }


_FIELDS = tuple(field.name for field in msgspec.structs.fields(ListenerSettings))


def key_of_variable(variable: str) -> str | None:
    """Returns the setting that a variable of the environment names; None if it is not one of a listener."""
    rest = variable.removeprefix(_VARIABLE_PREFIX)
    if rest == variable:
        return None
    for field in sorted(_FIELDS, key=len, reverse=True):
        name = rest.removesuffix(f"_{field.upper()}")
        if name and name != rest:
            return f"{LISTENER_PREFIX}{name}.{field}"
    return None


def parse_listener_setting(key: str, raw: object, *, origin: str, is_text: bool) -> tuple[str, object]:
    """Returns the key, with the listener's name in upper case, and its value. Raises SettingRefused."""
    name, _, field = key.removeprefix(LISTENER_PREFIX).rpartition(".")
    known = settings_of_listener(name.upper())
    written = f"{LISTENER_PREFIX}{name.upper()}.{field}"
    if not name or written not in known:
        raise unknown_key(key, known if name else settings_of_listener(ANY_NAME), origin)
    if isinstance(raw, float):  # a TOML file may say tls_version_min = 1.2
        raw = str(raw)
    return written, parse_setting(known[written], raw, origin=origin, is_text=is_text)


def listeners_of(folder: Path, values: Mapping[str, object]) -> dict[str, ListenerSettings]:
    """Name → settings of each listener that has any. Files are relative to the store's folder. Raises
    SettingRefused."""
    fields: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        if key.startswith(LISTENER_PREFIX):
            name, _, field = key.removeprefix(LISTENER_PREFIX).rpartition(".")
            is_file = field.endswith("_file")
            fields.setdefault(name, {})[field] = str(folder / str(value)) if is_file else value
    return {name: _made(name, each) for name, each in sorted(fields.items())}


def _made(name: str, fields: Mapping[str, Any]) -> ListenerSettings:
    try:
        return ListenerSettings(**fields)
    except InvalidListenerSetting as refusal:
        raise SettingRefused(f"settings in [listener.{name}] are not allowed: {refusal}") from refusal


def printed_listeners(listeners: Mapping[str, ListenerSettings]) -> Iterator[tuple[str, str]]:
    """Yields the settings that differ from their defaults, written as in a settings file."""
    for name, each in listeners.items():
        for key, setting in settings_of_listener(name).items():
            value = getattr(each, setting.name)
            if value != setting.default:
                yield key, format_setting(setting, value)
