"""Runs the periodic work on backlogs: mirroring progress, checking quotas, expiring records. Mirrors once more at the
end."""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from siltstone.broker.backlog.moving import GroupMover
from siltstone.broker.backlog.positions import Registrations
from siltstone.broker.backlog.progress_mirror import ProgressMirror
from siltstone.broker.backlog.quota_check import PartitionBacklog, QuotaCheck
from siltstone.broker.backlog.time_to_live import TimeToLive
from siltstone.broker.backlog.verdicts import QuotaVerdicts
from siltstone.broker.groups.groups import Groups
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.settings import BrokerSettings
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import MIRROR_AT_CLOSE_STALLED_MS_MAX
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup, ends_while_it_progresses

log = logging.getLogger(__name__)


class BacklogStatistics(msgspec.Struct, frozen=True):
    """``partitions`` are those with a quota, as of the last check. ``held_bytes`` is the size of produce requests
    that wait. ``records_expired`` counts offsets that groups were moved past by age, ``records_skipped`` by age or
    quota, for each group. ``progress_writes`` counts writes of progress into the metadata."""

    partitions: tuple[PartitionBacklog, ...]
    held_bytes: int
    records_expired: int
    records_skipped: dict[str, int]
    progress_writes: int


class BacklogWatch:
    def __init__(
        self,
        settings: BrokerSettings,
        registrations: Registrations,
        mirror: ProgressMirror,
        groups: Groups,
        partitions: Partitions,
        metadata: MetadataService,
        verdicts: QuotaVerdicts,
        clock: Clock,
        record_calls: BlockingCalls,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._mirror = mirror
        self._mover = GroupMover(groups, mirror)
        self._verdicts = verdicts
        self._quotas = QuotaCheck(registrations, self._mover, groups, partitions, metadata, verdicts)
        self._time_to_live = TimeToLive(
            registrations, self._mover, groups, partitions, metadata, clock, record_calls
        )
        self._tasks = TaskGroup("backlog", lambda _: None)

    def start(self) -> None:
        settings = self._settings
        for name, look, interval_ms in (
            ("mirror-progress", self._mirror.bring_up_to_date, settings.group_progress_interval_ms),
            ("check-quotas", self._quotas.look, settings.backlog_quota_check_interval_ms),
            ("check-time-to-live", self._time_to_live.look, settings.message_ttl_check_interval_ms),
        ):
            self._tasks.start(name, self._every(interval_ms, name, look))

    async def _every(self, interval_ms: int, name: str, look: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await look()
            except SiltstoneError as trouble:
                log.warning("%s failed and will be retried in %d ms: %s", name, interval_ms, trouble)
            await self._clock.sleep_ms(interval_ms)

    def end_waits(self) -> None:
        """Is called when the node is closing: answers held produce requests. To be called before ``Groups.end_waits``,
        after which groups can no longer be asked for their offsets."""
        self._mirror.note_last_positions()
        self._verdicts.end_waits()

    async def close(self) -> None:
        """To be called before the groups are closed. Mirrors the last commits; if that fails or makes no progress, the
        next start does it."""
        self.end_waits()
        await self._tasks.cancel()
        try:
            in_time = await ends_while_it_progresses(
                self._mirror.bring_up_to_date(),
                lambda: self._mirror.writes,
                self._clock,
                MIRROR_AT_CLOSE_STALLED_MS_MAX,
            )
        except SiltstoneError as trouble:
            log.warning(
                "the last progress of groups was not written to the metadata; the next start does it: %s",
                trouble,
            )
        else:
            if not in_time:
                log.warning(
                    "the last progress of groups was not written to the metadata, because the writes made no progress; "
                    "the next start does it"
                )

    def statistics(self) -> BacklogStatistics:
        return BacklogStatistics(
            partitions=self._quotas.backlogs,
            held_bytes=self._verdicts.held_bytes,
            records_expired=self._time_to_live.records_expired,
            records_skipped=dict(self._mover.records_skipped),
            progress_writes=self._mirror.writes,
        )
