"""Parses and formats the value of one setting: sizes such as ``16MiB``, durations such as ``20min``, numbers, texts.

The unit of a number is a part of the setting's name (``…_bytes…``, ``…_ms…``), so a new setting needs no entry here.
Every error is one line that names the source, the key, the value, and what is allowed.
"""

import re
from decimal import Decimal
from enum import Enum
from math import inf

import msgspec

from siltstone.foundation.credentials import without_credentials
from siltstone.model.errors import InvalidRequest
from siltstone.model.serving_limits import Price

_SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
          "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}  # fmt: skip
_DURATIONS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)")
_INTEGER_MAX = 2**63 - 1


class SettingRefused(InvalidRequest):
    """A setting is unknown, or its value has the wrong type or is not allowed."""


class Unit(Enum):
    BYTES = "bytes"
    MILLISECONDS = "ms"
    NONE = ""

    @classmethod
    def of(cls, name: str) -> "Unit":
        words = name.split("_")
        if "bytes" in words:
            return cls.BYTES
        return cls.MILLISECONDS if "ms" in words else cls.NONE


class Setting(msgspec.Struct, frozen=True):
    """One leaf of the settings tree; ``key`` is its path with dots."""

    key: str
    kind: type
    default: object

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    @property
    def unit(self) -> Unit:
        return Unit.of(self.name) if self.kind is int else Unit.NONE

    @property
    def minimum(self) -> int:
        """The smallest allowed number: 1 for buffers, limits and intervals; 0 for node ids and for waits and limits
        that may be switched off."""
        return 0 if self.name in _MAY_BE_ZERO else 1

    @property
    def allowed(self) -> str:
        """The allowed values in words, for error texts."""
        if issubclass(self.kind, Enum):
            return "one of " + ", ".join(str(member.value) for member in self.kind)
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return "a text"
        if self.kind is Price:
            return "a price of 0 or more, such as 0.4"
        if self.kind is float:
            return "a share above 0 and up to 1, such as 0.25"
        return {
            Unit.BYTES: f'a size of at least {self.minimum} B, such as 1048576, "64KiB" or "16MiB"',
            Unit.MILLISECONDS: f'a duration of at least {self.minimum} ms, such as 500, "30s" or "20min"',
            Unit.NONE: f"a whole number of at least {self.minimum}",
        }[self.unit]


_MAY_BE_ZERO = frozenset({
    "node_id", "grace_period_ms", "backoff_ms_min", "force_split_age_ms", "split_size_bytes",
    "group_initial_rebalance_delay_ms", "offset_metadata_max_bytes", "settled_ms", "small_object_bytes",
    "copy_bytes_per_second", "quota_bytes", "allowance_ms", "in_bytes_per_second", "out_bytes_per_second",
    "table_export_bytes_per_second", "sso_compaction_bytes_per_second", "key_compaction_bytes_per_second",
    "so_compaction_bytes_per_second", "relocation_bytes_per_second", "copies_bytes_per_second",
})  # fmt: skip


def parse_setting(setting: Setting, raw: object, *, origin: str, is_text: bool) -> object:
    """Parses the raw value of a setting. ``is_text``: it comes from the environment or the command line, where every
    value is a string; otherwise from a TOML file. Raises SettingRefused."""
    value = _parsed(setting, raw, is_text)
    if value is None:
        raise SettingRefused(
            f"{origin}: {setting.key}: {without_credentials(_written(raw))} is not allowed; use {setting.allowed}"
        )
    return value


def _parsed(setting: Setting, raw: object, is_text: bool) -> object | None:
    if issubclass(setting.kind, Enum):
        return next((member for member in setting.kind if member.value == raw), None)
    if setting.kind is bool:
        return {"true": True, "false": False}.get(str(raw)) if is_text else _when(isinstance(raw, bool), raw)
    if setting.kind is str:
        return _when(isinstance(raw, str) and raw != "", raw)
    if setting.kind is Price:
        price = _number(raw)
        return Price(price) if price is not None and 0 <= price < inf else None
    if setting.kind is float:
        return _share(raw)
    assert setting.kind is int, f"{setting.key}: say here how a {setting.kind} is written"
    number = _integer(setting.unit, raw, is_text)
    return _when(number is not None and setting.minimum <= number <= _INTEGER_MAX, number)


def _share(raw: object) -> float | None:
    """Parses a share above 0 and up to 1; every setting of type float is a share."""
    share = _number(raw)
    return share if share is not None and 0 < share <= 1 else None


def _number(raw: object) -> float | None:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        return None
    try:
        return float(raw)
    except (ValueError, OverflowError):
        return None


def _when(is_allowed: bool, value: object) -> object | None:
    return value if is_allowed else None


def _integer(unit: Unit, raw: object, is_text: bool) -> int | None:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    if not isinstance(raw, str) or (unit is Unit.NONE and not is_text):
        return None
    return written_quantity(unit, raw)


def written_quantity(unit: Unit, text: str) -> int | None:
    """Returns the number that ``text`` writes in ``unit``, such as 20min in milliseconds; None if the text is not such
    a number."""
    return _quantity(text.strip(), {Unit.BYTES: _SIZES, Unit.MILLISECONDS: _DURATIONS, Unit.NONE: {}}[unit])


def topic_config_text(name: str, text: str) -> str:
    """Returns the value of a topic configuration in Kafka's form: ``1d`` for ``retention.ms`` becomes 86400000,
    ``16MiB`` for ``segment.bytes`` becomes 16777216."""
    number = written_quantity(Unit.of(name.replace(".", "_")), text)
    return text if number is None else str(number)


def _quantity(text: str, factors: dict[str, int]) -> int | None:
    """Returns the number times the factor of its unit; None unless the product is whole: 1.5MiB is a size, 1.5 is
    not."""
    match = _QUANTITY.fullmatch(text)
    factor = 1 if match and not match[2] else factors.get(match[2] if match else "")
    if match is None or factor is None:
        return None
    number = Decimal(match[1]) * factor
    return int(number) if number == number.to_integral_value() else None


def format_setting(setting: Setting, value: object) -> str:
    """Returns the shortest text that ``parse_setting`` parses back to the value."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value:
        factors = {Unit.BYTES: _SIZES, Unit.MILLISECONDS: _DURATIONS, Unit.NONE: {}}[setting.unit]
        divisors = {
            factor: unit for unit, factor in factors.items() if value % factor == 0 and unit not in _DECIMAL
        }
        if divisors:
            largest = max(divisors)
            return f"{value // largest} {divisors[largest]}"
    return str(value)


_DECIMAL = frozenset({"kB", "MB", "GB", "TB"})


def _written(raw: object) -> str:
    return f'"{raw}"' if isinstance(raw, str) else str(raw).lower() if isinstance(raw, bool) else repr(raw)
