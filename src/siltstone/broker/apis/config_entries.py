"""Configurations of a topic as they are reported: what holds, and which of the three places it comes from."""

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from siltstone.topic_configs.rows import TABLE, ConfigRow
from siltstone.topic_configs.table import usable_configs


class ConfigSource(IntEnum):
    """With the protocol's numbers."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class Synonym(msgspec.Struct, frozen=True):
    """One place that says something, under the name it has there."""

    name: str
    value: str
    source: ConfigSource


class TopicEntry(msgspec.Struct, frozen=True):
    """``synonyms``: all places, the one that holds first."""

    row: ConfigRow
    synonyms: tuple[Synonym, ...]

    @property
    def value(self) -> str:
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        return self.synonyms[0].source


def topic_entries(configs: Mapping[str, str], defaults: Mapping[str, str]) -> list[TopicEntry]:
    """Every configuration there is, by name. ``defaults``: ``Topics.defaults``."""
    stored = usable_configs(configs)
    return [TopicEntry(row, _synonyms(row, stored, defaults)) for row in TABLE.values()]


def _synonyms(row: ConfigRow, configs: Mapping[str, str], defaults: Mapping[str, str]) -> tuple[Synonym, ...]:
    brokers_name = row.synonyms[0] if row.synonyms else row.name
    found = []
    if row.name in configs:
        found.append(Synonym(row.name, configs[row.name], ConfigSource.TOPIC))
    if row.name in defaults:
        found.append(Synonym(brokers_name, defaults[row.name], ConfigSource.STATIC_BROKER))
    return (*found, Synonym(brokers_name, row.default, ConfigSource.DEFAULT))
