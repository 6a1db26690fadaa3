"""The configurations of a topic as they are reported: each value, and which of three places it comes from (the topic,
the broker's settings, the default)."""

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from siltstone.topic_configs.rows import TABLE, ConfigRow
from siltstone.topic_configs.table import usable_configs


class ConfigSource(IntEnum):
    """Where a value comes from. The numbers are the protocol's."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Synonym(msgspec.Struct, frozen=True):
    """The value that one place gives to a configuration, and the configuration's name in that place."""

    name: str
    value: str
    source: ConfigSource


class TopicEntry(msgspec.Struct, frozen=True):
    """``synonyms``: the value of every place that has one. The first is in force."""

    row: ConfigRow
    synonyms: tuple[Synonym, ...]

    @property
    def told_synonyms(self) -> tuple[Synonym, ...]:
        """The synonyms that Kafka tells. A configuration without a name of the broker's, or with several, such as
        log.retention.ms, .minutes and .hours, has no default under its first name [Kafka 4.3: asked]."""
        has_default = len(self.row.synonyms) == 1
        return tuple(each for each in self.synonyms if has_default or each.source is not ConfigSource.DEFAULT)

    @property
    def value(self) -> str:
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        return self.synonyms[0].source


def topic_entries(configs: Mapping[str, str], defaults: Mapping[str, str]) -> list[TopicEntry]:
    """Returns all topic configurations, ordered by name. ``defaults`` are the broker's (``Topics.defaults``)."""
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
