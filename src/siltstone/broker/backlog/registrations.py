"""Which groups are registered with which topics (``siltstone.retention.groups``), as the metadata say just now."""

from collections.abc import Collection, Iterator, Mapping

from siltstone.broker.topics.registry import Topic, Topics


class Registrations:
    """A look-up costs a dictionary read while no topic is created, altered or deleted."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._all: tuple[Topic, ...] | None = None
        self._by_group: dict[str, tuple[Topic, ...]] = {}
        self._with_groups: tuple[Topic, ...] = ()

    def by_group(self) -> Mapping[str, tuple[Topic, ...]]:
        """The same object as long as nothing changes."""
        self._follow()
        return self._by_group

    def topics_of(self, group: str) -> tuple[Topic, ...]:
        return self.by_group().get(group, ())

    def names_of(self, group: str) -> Collection[str]:
        """Of the topics that keep their data for the group."""
        topics = self.by_group().get(group)
        return () if topics is None else {topic.name for topic in topics}

    def topics(self) -> tuple[Topic, ...]:
        """Those with registered groups."""
        self._follow()
        return self._with_groups

    def _follow(self) -> None:
        everything = self._topics.all()
        if everything is self._all:
            return
        self._all = everything
        self._with_groups = tuple(_with_groups(everything))
        by_group: dict[str, tuple[Topic, ...]] = {}
        for topic in self._with_groups:
            for group in topic.config.retention_groups:
                by_group[group] = (*by_group.get(group, ()), topic)
        self._by_group = by_group


def _with_groups(topics: tuple[Topic, ...]) -> Iterator[Topic]:
    """The broker's own topics are kept for nobody."""
    return (topic for topic in topics if topic.config.retention_groups and not topic.is_internal)
