"""The configurations of a topic or a group as they are reported: each value, and which of three places it comes from
(the topic or the group, the broker's settings, the default)."""

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from siltstone.broker.group_configs import ROWS, GroupConfigRow
from siltstone.broker.groups.settings import GroupSettings
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


class GroupEntry(msgspec.Struct, frozen=True):
    """``synonyms``: the value of every place that has one. The first is in force."""

    row: GroupConfigRow
    synonyms: tuple[Synonym, ...]


def group_entries(configs: Mapping[str, str], settings: GroupSettings) -> list[GroupEntry]:
    """Returns all configurations of a group, ordered by name. ``settings`` are the node's."""
    return [GroupEntry(row, _synonyms_of_group(row, configs, settings)) for row in ROWS.values()]


def _synonyms_of_group(
    row: GroupConfigRow, configs: Mapping[str, str], settings: GroupSettings
) -> tuple[Synonym, ...]:
    """Without a setting of the node, the default stands under the name of the configuration [Kafka 4.3: asked]."""
    own = (Synonym(row.name, configs[row.name], ConfigSource.GROUP),) if row.name in configs else ()
    if row.setting is None:
        return (*own, Synonym(row.name, row.default, ConfigSource.DEFAULT))
    value, default = getattr(settings, row.setting), getattr(GroupSettings(), row.setting)
    source = ConfigSource.DEFAULT if value == default else ConfigSource.STATIC_BROKER
    return (*own, Synonym(f"group.{row.name}", str(value), source))
