"""Random small stores made by commands are clean; one byte flipped anywhere in any object is found."""

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.maintenance.checking.check import check
from siltstone.maintenance.checking.findings import FindingKind
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.entities import StreamState
from siltstone.model.limits import GRACE_PERIOD_MS
from siltstone.model.objects import ObjectKind, ObjectState
from siltstone.model.record_batch import RecordBatch
from support.engine.batches import batch
from support.engine.objects import index_of, read_object
from support.maintenance.maintained_store import MaintainedStore
from support.values.examples import examples

seeds = st.integers(0, 2**32)


class RandomStore:
    """A node, a compaction and a sweep at work in turns, in two buckets."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = MaintainedStore((0, 1))
        self.world.new_stream()
        actions = [self._append, self._append, self._append, self._append_alone, self._trim, self._compact]
        actions += [self._delete, self._sweep, self.world.new_stream, self._give_up]
        for _ in range(self.rng.randrange(1, 25)):
            self.rng.choice(actions)()

    def committed(self) -> list[int]:
        objects = self.world.image.objects.values()
        return sorted(each.object_id for each in objects if each.state is ObjectState.COMMITTED)

    def _opened(self) -> list[int]:
        return sorted(
            each.stream_id for each in self.world.image.streams.values() if each.state is StreamState.OPENED
        )

    def _next_batches(self, stream_id: int) -> list[RecordBatch]:
        end = self.world.image.streams[stream_id].end_offset
        made = []
        for _ in range(self.rng.randrange(1, 6)):
            count = self.rng.randrange(1, 20)
            offsets = count + self.rng.choice((0, 0, 5))
            made.append(batch(stream_id, end, count, self.rng.randrange(300), offsets=offsets))
            end += offsets
        return made

    def _append(self) -> None:
        streams = [each for each in self._opened() if self.rng.random() < 0.7]
        batches = [one for each in streams for one in self._next_batches(each)]
        if batches:
            self.world.upload(batches, self.rng.randrange(2))

    def _append_alone(self) -> None:
        if streams := self._opened():
            self.world.upload(self._next_batches(self.rng.choice(streams)), self.rng.randrange(2), alone=True)

    def _trim(self) -> None:
        if streams := self._opened():
            stream = self.world.image.streams[self.rng.choice(streams)]
            self.world.trim(stream.stream_id, self.rng.randint(stream.start_offset, stream.end_offset + 3))

    def _delete(self) -> None:
        if (streams := self._opened()) and self.rng.random() < 0.5:
            self.world.delete_stream(self.rng.choice(streams))

    def _compact(self) -> None:
        """Whole objects, what is dead left out: by the batches of live streams that end above the start offset."""
        image = self.world.image
        sets = [each for each in self.committed() if image.objects[each].kind is ObjectKind.STREAM_SET_OBJECT]
        if chosen := [each for each in sets if self.rng.random() < 0.6]:
            held = [one for each in chosen for one in read_object(self.world.bytes_of(each))]
            live = [one for one in held if self._is_live(one)]
            live.sort(key=lambda one: (one.stream_id, one.base_offset))
            if self._is_contiguous(live):
                self.world.compact(chosen, live, self.rng.randrange(2))

    def _is_live(self, one: RecordBatch) -> bool:
        stream = self.world.image.streams.get(one.stream_id)
        return (
            stream is not None
            and stream.state is not StreamState.DELETED
            and one.end_offset > stream.start_offset
        )

    @staticmethod
    def _is_contiguous(batches: list[RecordBatch]) -> bool:
        """A stream set object holds one run of each stream."""
        following = pairwise(batches)
        return all(a.stream_id < b.stream_id or a.end_offset == b.base_offset for a, b in following)

    def _give_up(self) -> None:
        self.world.destroyed(1, self.rng.randrange(2))

    def _sweep(self) -> None:
        self.world.clock.advance_ms(self.rng.choice((1, GRACE_PERIOD_MS)))
        sweep(self.world.context)


@settings(max_examples=examples(200))
@given(seeds)
def test_a_store_is_clean_at_any_time(seed: int) -> None:
    store = RandomStore(seed)
    for read_blocks in (True, False):
        report = check(store.world.context, read_blocks=read_blocks)
        assert report.is_clean, report.findings
        assert report.objects_checked == len(store.committed())
    store.world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(store.world.context)
    store.world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(store.world.context)
    assert check(store.world.context).findings == ()
    for bucket_id in (0, 1):
        assert store.world.keys(bucket_id) == store.world.committed_keys(bucket_id)


@settings(max_examples=examples(250))
@given(seeds, st.integers(0, 2**32), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_one_byte_flipped_anywhere_is_found(seed: int, choice: int, place: float, mask: int) -> None:
    """By a full check always, by one of the indexes when it lies in index or footer."""
    store = RandomStore(seed)
    committed = store.committed()
    if not committed:
        return
    object_id = committed[choice % len(committed)]
    content = store.world.bytes_of(object_id)
    data_bytes = sum(entry.size_bytes for entry in index_of(content))
    position = int(place * len(content))
    store.world.flip(object_id, position, mask)
    report = check(store.world.context)
    found = {finding.object_id for finding in report.findings if finding.kind is FindingKind.OBJECT_DAMAGED}
    assert found == {object_id} and not report.is_clean
    by_index = check(store.world.context, read_blocks=False)
    assert by_index.is_clean == (position < data_bytes)


@settings(max_examples=examples(150))
@given(seeds, st.integers(0, 2**32))
def test_one_object_lost_or_shortened_is_found(seed: int, choice: int) -> None:
    store = RandomStore(seed)
    committed = store.committed()
    if not committed:
        return
    object_id = committed[choice % len(committed)]
    content = store.world.bytes_of(object_id)
    cut = choice % (len(content) + 1)
    if cut == len(content):
        store.world.lose(object_id)
    else:
        store.world.overwrite(object_id, content[:cut])
    for read_blocks in (True, False):
        report = check(store.world.context, read_blocks=read_blocks)
        assert not report.is_clean
        errors = {finding.object_id for finding in report.findings if finding.severity == 3}
        assert errors == {object_id}
