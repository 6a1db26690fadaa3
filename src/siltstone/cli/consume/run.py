"""One run of ``siltstone consume``: what reading as a member of a consumer group and of a share group have in common.

``GroupConsuming`` and ``ShareConsuming`` say how records are read, and how the group learns what was printed. Here are
the beginning and the end of a run, which are alike: a signal ends it after what was printed is settled, and the member
leaves its group.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

import msgspec

from siltstone.cli.consume.held_signals import HeldSignals
from siltstone.cli.tail.filters import Matches
from siltstone.cli.tail.formats import Writer
from siltstone.cli.tail.sink import Sink
from siltstone.kafka_client.cluster import Cluster
from siltstone.model.errors import SiltstoneError


class ConsumeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``from_beginning``: where to begin in partitions for which the group has committed no offset; False: at their
    ends. ``limit``: records to print; None for all. ``matches``: those to print; the others are committed with them.
    ``is_coordinated``: the coordinator assigns the partitions (KIP-848)."""

    topic: str
    group_id: str
    from_beginning: bool
    until_end: bool
    limit: int | None
    matches: Matches | None = None
    is_coordinated: bool = False


class ConsumeParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a run works with. ``on_remark``: shows a text beside the records."""

    cluster: Cluster
    settings: ConsumeSettings
    write: Writer
    signals: HeldSignals
    on_remark: Callable[[str], None]


class ConsumeRun(ABC):
    """``run`` returns when the limit or the end is reached, and raises KeyboardInterrupt after a signal, when the group
    knows all that was printed."""

    def __init__(self, parts: ConsumeParts) -> None:
        self._cluster = parts.cluster
        self._settings = parts.settings
        self._write = parts.write
        self._signals = parts.signals
        self._on_remark = parts.on_remark
        self._sink = Sink()
        self._left = parts.settings.limit
        self.records_read = 0
        """The number of records that were read, shown or not."""

    def run(self) -> None:
        """Raises KeyboardInterrupt, ReaderGone, RecordsDamaged, KafkaRefusal, and Unavailable after a minute without
        the broker."""
        try:
            self._read()
        except KeyboardInterrupt:
            self._cluster.reconnect()  # a request may have been interrupted before its answer
            raise
        finally:
            with self._signals.held():
                self._settle()
                with suppress(SiltstoneError):  # else its session ends by itself, and what it holds is free
                    self._leave()

    @abstractmethod
    def _read(self) -> None:
        """Reads and prints until the limit or the end is reached."""

    @abstractmethod
    def _settle(self) -> None:
        """Tells the group what was printed last."""

    @abstractmethod
    def _leave(self) -> None:
        """Leaves the group."""
