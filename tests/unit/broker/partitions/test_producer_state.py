import pytest

from siltstone.broker.partitions.producer_state import OutOfOrderSequence, ProducerState, StaleProducerEpoch
from siltstone.kafka_protocol.batch_header import BatchHeader, read_batch_header
from siltstone.object_formats.partition_snapshot import ProducerEntry, SequencedBatch
from support.kafka.kafka_batches import with_header
from support.kafka.kafka_requests import sequenced

LAST = 2**31 - 1


def header(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 9) -> BatchHeader:
    batch = sequenced(producer_id, sequence, 1, epoch)
    return read_batch_header(with_header(batch, last_offset_delta=count - 1, record_count=count))


class StepProgress:
    """A state that gets each batch at the next offset, as from a partition."""

    def __init__(self, producers_max: int = 100) -> None:
        self.state = ProducerState(producers_max)
        self.next_offset = 1_000

    def append(self, head: BatchHeader, now_ms: int = 0) -> int:
        assert self.state.find_repeated(head) is None
        self.state.appended(head, self.next_offset, -1, now_ms)
        self.next_offset += head.last_offset_delta + 1
        return self.next_offset - head.last_offset_delta - 1

    def ids(self) -> list[int]:
        return [entry.producer_id for entry in self.state.entries()]


def test_item_23_a_repeated_batch_has_its_first_offset_and_time():
    told = StepProgress()
    told.append(header(0, 3))
    told.state.appended(header(3, 2), 1_003, 77, 0)
    assert told.state.find_repeated(header(0, 3)) == SequencedBatch(0, 2, 1_000, -1)
    assert told.state.find_repeated(header(3, 2)) == SequencedBatch(3, 4, 1_003, 77)


def test_item_23_the_last_five_are_recognised_and_no_more():
    told = StepProgress()
    offsets = [told.append(header(sequence)) for sequence in range(6)]
    for sequence in range(1, 6):
        repeated = told.state.find_repeated(header(sequence))
        assert repeated is not None and repeated.base_offset == offsets[sequence]
    with pytest.raises(OutOfOrderSequence):
        told.state.find_repeated(header(0))


@pytest.mark.parametrize(("sequence", "count"), [(0, 2), (1, 2), (0, 4), (2, 1)])
def test_a_batch_of_which_only_a_part_is_known_is_no_repetition(sequence, count):
    told = StepProgress()
    told.append(header(0, 3))
    with pytest.raises(OutOfOrderSequence):
        told.state.find_repeated(header(sequence, count))


@pytest.mark.parametrize("sequence", [4, 100, LAST, 2])
def test_item_23_a_gap_is_refused_and_changes_nothing(sequence):
    told = StepProgress()
    told.append(header(0, 3))
    with pytest.raises(OutOfOrderSequence, match=f"sequence {sequence}, expected 3"):
        told.state.find_repeated(header(sequence))
    assert told.append(header(3)) == 1_003


@pytest.mark.parametrize(
    ("first", "count", "following"),
    [(LAST, 1, 0), (LAST - 1, 2, 0), (LAST - 1, 3, 1), (LAST - 4, 10, 5)],
)
def test_sequences_begin_again_after_the_last_of_31_bits(first, count, following):
    told = StepProgress()
    told.append(header(first, count))
    repeated = told.state.find_repeated(header(first, count))
    assert repeated is not None and repeated.last_sequence == (first + count - 1) % 2**31
    with pytest.raises(OutOfOrderSequence):
        told.state.find_repeated(header(following + 1))
    told.append(header(following))


def test_item_23_an_older_epoch_is_refused():
    told = StepProgress()
    told.append(header(0, epoch=4))
    for sequence in (0, 1):
        with pytest.raises(StaleProducerEpoch, match="at epoch 4, the batch has 3"):
            told.state.find_repeated(header(sequence, epoch=3))


def test_an_epoch_that_cannot_be_is_refused_of_a_producer_that_is_not_known():
    told = StepProgress()
    with pytest.raises(StaleProducerEpoch, match="epochs start at 0"):
        told.state.find_repeated(header(0, epoch=-2))
    assert told.state.find_repeated(header(0, epoch=-1)) is None


def test_a_newer_epoch_begins_at_sequence_0():
    told = StepProgress()
    told.append(header(0, 3, epoch=0))
    for sequence in (3, 1):
        with pytest.raises(OutOfOrderSequence, match="expected 0"):
            told.state.find_repeated(header(sequence, epoch=1))
    told.append(header(0, epoch=1))
    with pytest.raises(StaleProducerEpoch):
        told.state.find_repeated(header(3, epoch=0))


def test_the_same_sequences_of_a_newer_epoch_are_no_repetition():
    told = StepProgress()
    told.append(header(0, 3, epoch=0))
    told.append(header(0, 3, epoch=1))
    repeated = told.state.find_repeated(header(0, 3, epoch=1))
    assert repeated is not None and repeated.base_offset == 1_003


@pytest.mark.parametrize("sequence", [0, 17, LAST])
@pytest.mark.parametrize("epoch", [0, 5])
def test_of_an_unknown_producer_any_sequence_and_epoch_is_taken(sequence, epoch):
    told = StepProgress()
    told.append(header(sequence, epoch=epoch))
    told.append(header((sequence + 1) % 2**31, epoch=epoch))


def test_producers_do_not_know_each_other():
    told = StepProgress()
    told.append(header(0, producer_id=1))
    told.append(header(0, producer_id=2))
    told.append(header(1, producer_id=1))
    with pytest.raises(OutOfOrderSequence):
        told.state.find_repeated(header(2, producer_id=2))


def test_who_was_idle_for_longest_is_forgotten_when_there_are_too_many():
    told = StepProgress(producers_max=2)
    told.append(header(0, producer_id=1))
    told.append(header(0, producer_id=2))
    told.append(header(1, producer_id=1))
    told.append(header(0, producer_id=3))
    assert told.ids() == [1, 3]
    told.append(header(2, producer_id=1))
    told.append(header(5, producer_id=2))  # unknown again
    assert told.ids() == [1, 2]


def test_item_24_producers_expire_by_the_time_of_their_last_batch():
    told = StepProgress()
    told.append(header(0, producer_id=1), now_ms=10)
    told.append(header(0, producer_id=2), now_ms=20)
    told.append(header(1, producer_id=1), now_ms=30)
    told.state.expire(20)
    assert told.ids() == [2, 1]
    told.state.expire(21)
    assert told.ids() == [1]
    told.state.expire(31)
    assert told.ids() == []


def test_what_was_written_down_is_known_again():
    told = StepProgress()
    for sequence in range(7):
        told.append(header(sequence), now_ms=sequence)
    told.append(header(0, producer_id=3), now_ms=8)
    entries = tuple(told.state.entries())
    assert [len(entry.batches) for entry in entries] == [5, 1]
    again = ProducerState(100, entries)
    assert tuple(again.entries()) == entries
    assert again.find_repeated(header(2)) is not None
    with pytest.raises(OutOfOrderSequence):
        again.find_repeated(header(1))


def test_tp13_after_a_marker_the_same_epoch_begins_with_sequence_0():
    state = ProducerState(10, [ProducerEntry(9, 3, 0, ())])
    with pytest.raises(OutOfOrderSequence, match="expected 0"):
        state.find_repeated(header(3, epoch=3))
    assert state.find_repeated(header(0, epoch=3)) is None
    with pytest.raises(StaleProducerEpoch):
        state.find_repeated(header(0, epoch=2))
