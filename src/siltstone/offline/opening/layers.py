"""Reads the sources of settings, each as a flat layer of keys and raw values: a TOML file, the environment, flags.

Below all layers are the defaults in the tree itself. A later layer overrides earlier ones key by key.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from siltstone.foundation.credentials import is_secret, without_password
from siltstone.offline.opening.tree import ENVIRONMENT_PREFIX, environment_name, known_settings
from siltstone.offline.opening.values import SettingRefused
from siltstone.runtime.secret_sources import is_open_to_all

NOT_SETTINGS = frozenset({
    "SILTSTONE_STORE", "SILTSTONE_CONFIG", "SILTSTONE_BOOTSTRAP", "SILTSTONE_JAVA", "SILTSTONE_DEBUG",
    "SILTSTONE_REGISTRY_AUTH", "SILTSTONE_REGISTRY_AUTH_FILE", "SILTSTONE_CLIENT_CONFIG",
})  # fmt: skip
"""Variables with the prefix that are not settings: they choose the store, the broker, how clients of it encrypt, or
Java, show stack traces, or are a password."""

CATALOG_PREFIX = "tables.catalog."

FILE_BYTES_MAX = 1 << 20
"""The most bytes of a settings file, since ``--config`` may name a device that never ends. All settings with all their
comments take a tenth of it."""


class Layer(msgspec.Struct, frozen=True):
    """One source of settings; ``is_text``: all its values are strings, because the source has no other types."""

    origin: str
    values: dict[str, object]
    is_text: bool = True


def file_layer(path: Path) -> Layer:
    """Returns the layer of a TOML file; a value in nested tables gets a key with dots. Raises SettingRefused."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise SettingRefused(
                f"settings file {path} has more than {FILE_BYTES_MAX} bytes: name another one"
            )
        tables = tomllib.loads(content.decode())
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "not UTF-8"
        raise SettingRefused(f"settings file {path} cannot be read: {reason}") from failure
    except tomllib.TOMLDecodeError as failure:
        raise SettingRefused(f"settings file {path} is not valid TOML: {failure}") from failure
    values = dict(_flattened(tables))
    _refuse_secrets_for_all(path, values)
    return Layer(str(path), values, is_text=False)


def _refuse_secrets_for_all(path: Path, values: Mapping[str, object]) -> None:
    """Raises SettingRefused when every user of the machine may read a file that holds a secret. A group may, as in a
    mounted secret of Kubernetes (0440, 0640)."""
    if not is_open_to_all(path.stat().st_mode):
        return
    for key, value in values.items():
        text = str(value)
        if key.startswith(CATALOG_PREFIX):
            has_secret = is_secret(key.removeprefix(CATALOG_PREFIX), text)
        else:
            has_secret = without_password(text) != text
        if has_secret:
            raise SettingRefused(
                f"settings file {path} holds a secret ({key}), and every user of this machine may read it: "
                f"chmod 640 {path}, or give the secret through the environment"
            )


def environment_layer(
    environment: Mapping[str, str],
    keys: Mapping[str, object],
    key_of_variable: Callable[[str], str | None] = lambda _: None,
) -> Layer:
    """Returns the layer of the environment: variables that begin with SILTSTONE_. Each must name one of the ``keys``, a
    bucket, or what ``key_of_variable`` finds. Raises SettingRefused."""
    known = {environment_name(key): key for key in keys}
    values: dict[str, object] = {}
    for name, value in environment.items():
        if not name.startswith(ENVIRONMENT_PREFIX) or name in NOT_SETTINGS:
            continue
        bucket = name.removeprefix(f"{ENVIRONMENT_PREFIX}BUCKETS_")
        key = known.get(name) or key_of_variable(name) or (f"buckets.{bucket}" if bucket != name else None)
        if key is None:
            raise SettingRefused(f"environment: {name} is not a setting; {known_settings('', keys)}")
        values[key] = value
    return Layer("environment", values)


def flags_layer(flags: Mapping[str, str], origin: str) -> Layer:
    return Layer(origin, dict(flags))


def _flattened(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
