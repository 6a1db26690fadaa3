"""Erasure as a kind of maintenance: it looks at every object of a topic under erasure, writes the objects that hold
records of the keys again without these, and ends an erasure when a look finds nothing.

    image → plan → look at each object → note which hold the keys → tasks → a commit for each
                                     ↘ none does: the erasure is verified

One run looks once at each object, so an erasure takes two runs at least: the second finds that nothing is left. What is
noted before anything is replaced (``ErasedObject``) is in the report, whatever happens to the driver afterwards. A
stream set object that holds records of the keys waits until ``sso-compaction`` has split the stream off.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from siltstone.carrying.engine import Engine
from siltstone.carrying.pipeline.kind import Attempt, Outcome, Plan, Scope, UnitReport, Unplanned
from siltstone.carrying.pipeline.watch import Watch
from siltstone.foundation.portions import portions
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.erasure.carrying_out import ErasedSource, input_of, rewritings
from siltstone.maintenance.erasure.noting import drop_kept, erasure_ids_of, note_holders, observe
from siltstone.maintenance.erasure.planning import StreamToErase, planned_unit, streams_to_erase
from siltstone.maintenance.erasure.task import run_erasure
from siltstone.maintenance.erasure.task_input import CODEC
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import ERASURE_WAVE_OBJECTS_MAX
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.erasures import ErasureVerification, erasures_of, put_erasure
from siltstone.offline.settings import KeyCompactionSettings
from siltstone.offline.tasks.runner import RunFailed
from siltstone.tables.planning import exports

ERASURE = "erasure"


class ErasureLook(msgspec.Struct):
    """What a look at all objects of one stream has found. ``troubles``: why objects could not be read."""

    stream: StreamToErase
    holders: list[ErasedSource]
    troubles: list[str]
    objects: int = 0
    records: int = 0
    bytes_read: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.holders or self.troubles)

    @property
    def to_rewrite(self) -> list[ErasedSource]:
        return [each for each in self.holders if each.source.object_id not in self.stream.sets]

    @property
    def to_split(self) -> list[ErasedSource]:
        return [each for each in self.holders if each.source.object_id in self.stream.sets]


class ErasureKind:
    """The kind of maintenance."""

    name = ERASURE

    def __init__(
        self,
        settings: KeyCompactionSettings | None = None,
        wave_objects_max: int = ERASURE_WAVE_OBJECTS_MAX,
    ) -> None:
        self._settings = settings or KeyCompactionSettings()
        self._wave_objects_max = wave_objects_max

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        """Makes the plan from the image alone. Raises UnreadableErasure."""
        watch.check()
        streams = streams_to_erase(context.metadata.refresh(), scope)
        return Plan(
            kind=ERASURE,
            units=[planned_unit(each) for each in streams],
            unplanned=_nothing_asked_for(scope, streams),
            urgency="records are to be erased" if streams else "",
            work={each.name: each for each in streams},
        )

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        looks = self.look([plan.work[name] for name in names], attempt)
        for look in looks:
            note_holders(attempt.context, look.stream, look.holders)
        self._drop_kept(looks, attempt)
        reports = self._rewrite([each for look in looks for each in look.to_rewrite], attempt)
        self._verify(looks, attempt.context)
        observe(attempt.context, erasure_ids_of(look.stream for look in looks))
        for look in looks:
            yield _report(look, reports[look.stream.name])

    def look(self, streams: Sequence[StreamToErase], attempt: Attempt) -> list[ErasureLook]:
        """Looks at every stream object of the streams, and writes nothing. Raises as ``carry_out``."""
        looks = [ErasureLook(each, [], []) for each in streams]
        wanted = [(look, source) for look in looks for source in look.stream.sources]
        if not wanted:
            return looks
        report_progress = attempt.watch.steps("look", sum(each.size_bytes for _, each in wanted))
        ended = attempt.start_runner().run_each(
            run_erasure,
            (
                CODEC.encode_input(input_of(attempt, look.stream, source, self._settings))
                for look, source in wanted
            ),
            attempt.watch.check,
            lambda at: attempt.label([wanted[at][0].stream.name]),
        )
        for number, (at, answer) in enumerate(ended, start=1):
            look, source = wanted[at]
            report_progress(number, len(wanted))
            if isinstance(answer, RunFailed):
                look.troubles.append(str(answer))
                continue
            result = CODEC.decode_result(answer)
            if result.failure is not None:
                look.troubles.append(result.failure.reason)
                continue
            look.objects += 1
            look.records += result.records_read
            look.bytes_read += result.bytes_read
            if any(result.erased):
                look.holders.append(ErasedSource(stream=look.stream, source=source, erased=result.erased))
        for look in looks:
            look.holders.sort(key=lambda each: each.source.held.start_offset)
        return looks

    def _rewrite(self, holders: Sequence[ErasedSource], attempt: Attempt) -> dict[str, list[UnitReport]]:
        """Returns the reports of the objects, by the name of their stream."""
        reports: defaultdict[str, list[UnitReport]] = defaultdict(list)
        stream_of = {each.name: each.stream.name for each in holders}
        engine = Engine(attempt, rewritings(attempt, self._settings))
        for wave in portions(
            holders,
            self._wave_objects_max,
            lambda each: (each.source.size_bytes,),
            (self._settings.wave_bytes_max,),
        ):
            for report in engine.carry_out(wave):
                reports[stream_of[report.name]].append(report)
        return reports

    def _drop_kept(self, looks: Sequence[ErasureLook], attempt: Attempt) -> None:
        """Has the nodes drop what they keep. A look that is clean verifies nothing while a node keeps records."""
        erasure_ids = erasure_ids_of(look.stream for look in looks)
        kept = drop_kept(attempt.context, erasure_ids, attempt.watch.check)
        for look in looks:
            look.troubles += sorted({kept[each] for each in erasure_ids_of([look.stream]) & kept.keys()})

    def _verify(self, looks: Sequence[ErasureLook], context: MaintenanceContext) -> None:
        """Ends the erasures of whose streams all were looked at, with nothing found."""
        clean = {look.stream.stream_id: look for look in looks if look.is_clean}
        image = context.metadata.refresh()
        for erasure in erasures_of(image):
            streams = _streams_of(image, erasure.topic_id, erasure.bounds)
            if erasure.is_pending and streams is not None and streams <= clean.keys():
                mine = [clean[each] for each in streams]
                verification = ErasureVerification(
                    context.now_ms(),
                    sum(look.objects for look in mine),
                    sum(look.records for look in mine),
                    sum(look.bytes_read for look in mine),
                    image.next_object_id,
                )
                has_table = not erasure.leaves_tables and (
                    erasure.has_table or erasure.topic in exports(image)
                )
                ended = msgspec.structs.replace(erasure, verification=verification, has_table=has_table)
                context.metadata.execute(put_erasure(image, ended))


def _streams_of(image: MetadataImage, topic_id: str, bounds: Sequence[int]) -> set[int] | None:
    """Returns the data streams of the partitions with a bound; None if the topic was deleted."""
    topic = image.topics.get(topic_id)
    if topic is None:
        return None
    partitions = zip(topic.partitions, bounds, strict=False)
    return {each.data_stream_id for each, bound in partitions if bound}


def _nothing_asked_for(scope: Scope, streams: Sequence[StreamToErase]) -> tuple[Unplanned, ...]:
    if streams or scope.topics is None:
        return ()
    return tuple(Unplanned(topic, "no erasure of it is pending") for topic in sorted(scope.topics))


def _report(look: ErasureLook, reports: Sequence[UnitReport]) -> UnitReport:
    failed = [each.text for each in reports if each.outcome is Outcome.FAILED]
    done = [each for each in reports if each.outcome is Outcome.DONE]
    troubles = [*look.troubles, *failed]
    return UnitReport(
        name=look.stream.name,
        outcome=Outcome.FAILED if troubles else Outcome.DONE,
        text=troubles[0] if troubles else _text(look, done),
        bytes_read=look.bytes_read + sum(each.bytes_read for each in done),
        bytes_written=sum(each.bytes_written for each in done),
        bytes_freed=sum(each.bytes_freed for each in done),
        objects_before=look.objects,
        objects_after=look.objects - len(done) + sum(each.objects_after for each in done),
        records_removed=sum(each.records_removed for each in done),
        peak_memory_bytes=max((each.peak_memory_bytes for each in done), default=0),
        has_remaining=bool(done),
    )


def _text(look: ErasureLook, done: Sequence[UnitReport]) -> str:
    looked_at = f"{counted(look.objects, 'object')} looked at, {size_words(look.bytes_read)}"
    if look.is_clean:
        return f"{looked_at}: no record of the keys is left"
    erased = sum(each.records_removed for each in done)
    facts = [
        looked_at,
        f"{counted(erased, 'record')} erased from {counted(len(done), 'object')}" if done else "",
        f"{counted(len(look.to_split), 'stream set object')} to be split by sso-compaction first"
        if look.to_split
        else "",
    ]
    return "; ".join(filter(None, facts))
