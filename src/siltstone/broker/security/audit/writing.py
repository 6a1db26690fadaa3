"""Appends the records of the audit to its topic, each second: to a partition that this node leads, or by way of the
node that leads one.

A record that may not have been written is written again, so after a failure it may be there twice. The node with the
lowest id also writes down the runs of maintenance and the notes of commands that changed the metadata without a broker.
"""

import logging

from siltstone.broker.parts import BrokerParts
from siltstone.broker.peers import PeerUnreachable
from siltstone.broker.security.audit.gathering import RECORDS_PER_SECOND_MAX, WaitingRecord
from siltstone.broker.security.audit.trail import AuditTrail
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.metadata.changes import NOTE_PREFIX, note_of, waiting_notes
from siltstone.metadata.commands import RemoveKey
from siltstone.metadata.entities import NO_NODE, JobMetadata, JobState
from siltstone.metadata.image import MetadataImage
from siltstone.model.audit import (
    TEXT_CHARACTERS,
    AuditEvent,
    AuditKind,
    AuditNoteDamaged,
    shortened,
)
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import SECOND_MS
from siltstone.runtime.log_limit import LogLimit
from siltstone.runtime.tasks import ends_in_time

WRITE_INTERVAL_MS = 1 * SECOND_MS
END_MS_MAX = 2 * SECOND_MS
"""How long a broker that ends still writes what it knows: a tenth of the time in which it has to end."""

PRODUCE_MS_MAX = 10 * SECOND_MS
FROM_ALL = -1

log = logging.getLogger(__name__)


class AuditWriter:
    def __init__(self, trail: AuditTrail, parts: BrokerParts) -> None:
        self._trail = trail
        self._topic = parts.creation.audit_topic
        self._metadata = parts.metadata
        self._partitions = parts.partitions
        self._cluster = parts.cluster
        self._peers = parts.peers
        self._clock = parts.clock
        self._node_id = parts.node_id
        self._image = parts.metadata.image
        self._was_first = False
        self._turn = 0
        self._noted: set[str] = set()
        self._unnoted: dict[str, None] = {}
        """The notes that are to be taken when there is room, in their order."""
        self._limit = LogLimit(parts.clock)

    async def run(self) -> None:
        """Runs for ever."""
        while True:
            await self._clock.sleep_ms(WRITE_INTERVAL_MS)
            await self.write()

    async def end(self) -> None:
        """Writes what is still known, in END_MS_MAX at most."""
        if self._trail.is_on:
            await ends_in_time(self.write(is_end=True), self._clock, END_MS_MAX)

    async def write(self, *, is_end: bool = False) -> None:
        self._look()
        while records := self._trail.gathering.take(self._clock.now_ms(), is_end=is_end):
            left = records
            try:
                await self._append(records)
                self._trail.gathering.wrote(records)
                left = [each for each in records if each.note]
                while left:  # a note whose key stays is written again, and what is in the topic is not
                    await self._metadata.execute(RemoveKey(left[0].note))
                    self._noted.discard(left.pop(0).note)
            except SiltstoneError as trouble:
                without_room = self._trail.gathering.put_back(left)
                self._noted.difference_update(without_room)
                self._unnoted.update(dict.fromkeys(without_room))
                if self._limit.is_due():
                    log.warning("the audit cannot be written now, and is tried again: %s", trouble)
                return
            if not is_end or len(records) < RECORDS_PER_SECOND_MAX:
                return

    async def _append(self, records: list[WaitingRecord]) -> None:
        """Raises Unavailable."""
        topic = await self._topic()
        now_ms = self._clock.now_ms()
        batch = build_batch([Record(timestamp_ms=now_ms, value=each.value) for each in records])
        self._turn += 1
        partitions = list(enumerate(topic.metadata.partitions))
        own = [index for index, each in partitions if self._cluster.leads(each)]
        if own:
            index = own[self._turn % len(own)]
            partition = self._partitions.opened(topic.id, index) or await self._partitions.open(topic, index)
            await partition.append_own(batch)
            return
        led = [(index, each.leader) for index, each in partitions if each.leader != NO_NODE]
        if not led:
            raise PeerUnreachable(self._node_id, f"no node leads a partition of {topic.name}")
        index, leader = led[self._turn % len(led)]
        await self._send(topic, index, leader, bytes(batch))

    async def _send(self, topic: Topic, index: int, leader: int, batch: bytes) -> None:
        request = ProduceRequest(
            acks=FROM_ALL,
            timeout_ms=PRODUCE_MS_MAX,
            topics=[
                ProduceTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[ProducePartition(index=index, records=batch)],
                )
            ],
        )
        answer = await self._peers.ask(leader, request, ProduceResponse)
        if code := answer.topics[0].partitions[0].error_code:
            raise PeerUnreachable(leader, f"it refuses the records of the audit (code {code})")

    # -- what no request of this node has done -----------------------------------------------------------

    def _look(self) -> None:
        """Takes notes and jobs out of the newest image, if no live node has a lower id."""
        before, image = self._image, self._metadata.image
        self._image = image
        is_first = self._node_id == min(self._cluster.live_ids, default=self._node_id)
        if is_first and (not self._was_first or not image.keys.is_unchanged_from(before.keys)):
            changed = image.keys if not self._was_first else dict(image.keys.changed_from(before.keys))
            self._unnoted.update(dict.fromkeys(waiting_notes(changed)))
        if not is_first:
            self._unnoted.clear()
        while self._unnoted and self._takes(next(iter(self._unnoted)), image):
            del self._unnoted[next(iter(self._unnoted))]
        if is_first and self._was_first and not image.jobs.is_unchanged_from(before.jobs):
            for _, job in sorted(image.jobs.changed_from(before.jobs)):
                self._job(job, before)
        self._was_first = is_first

    def _takes(self, key: str, image: MetadataImage) -> bool:
        """Returns whether nothing more is to be done about a note; False: there is no room for it yet."""
        if key in self._noted or (value := image.keys.get(key)) is None:
            return True
        try:
            note = note_of(value)
        except AuditNoteDamaged as failure:
            if self._limit.is_due(NOTE_PREFIX):
                log.error("%s", failure)
        else:
            if not self._trail.gathering.add_note(note.event, note.time_ms, key):
                return False
        self._noted.add(key)
        return True

    def _job(self, job: JobMetadata, before: MetadataImage) -> None:
        """A run begins and ends; the renewal of its lease is no event."""
        standing = before.jobs.get(job.job_id)
        if standing is not None and standing.state is job.state:
            return
        is_over = job.state is not JobState.RUNNING
        event = AuditEvent(
            event=AuditKind.MAINTENANCE,
            outcome=job.state.name.lower() if is_over else "started",
            principal=shortened(f"process {job.driver}"),
            operation=job.kind.upper(),
            resource=f"job {job.job_id}",
            before="" if is_over else shortened(job.description, TEXT_CHARACTERS),
            after=shortened(job.report, TEXT_CHARACTERS) if is_over else "",
        )
        self._trail.add(event, job.finished_ms if is_over else job.started_ms)
