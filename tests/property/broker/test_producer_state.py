"""The producer state against a model that keeps every batch there ever was."""

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.partitions.producer_state import OutOfOrderSequence, ProducerState, StaleProducerEpoch
from siltstone.kafka_protocol.batch_header import BatchHeader
from siltstone.model.errors import SiltstoneError
from support.values.examples import examples

SEQUENCES = 2**31

sends = st.lists(
    st.tuples(
        st.integers(0, 2),  # producer
        st.integers(0, 2),  # epoch
        st.integers(-2, 6).map(
            lambda near: near % SEQUENCES
        ),  # sequence, around the place where they begin again
        st.integers(1, 3),  # records
    ),
    max_size=60,
)


class PlainState:
    """Everything that was taken: (epoch, sequences, offset) in order."""

    def __init__(self) -> None:
        self.taken: dict[int, list[tuple[int, list[int], int]]] = {}

    def judge(self, producer: int, epoch: int, sequences: list[int]) -> int | type[SiltstoneError] | None:
        """The offset of the same batch, an error, or None: it is new."""
        taken = self.taken.get(producer)
        if not taken:
            return None
        newest = taken[-1][0]
        if epoch < newest:
            return StaleProducerEpoch
        if epoch > newest:
            return None if sequences[0] == 0 else OutOfOrderSequence
        of_epoch = [batch for batch in taken if batch[0] == epoch]
        for _, known, offset in of_epoch[-5:]:
            if known == sequences:
                return offset
        expected = (of_epoch[-1][1][-1] + 1) % SEQUENCES
        return None if sequences[0] == expected else OutOfOrderSequence


@settings(max_examples=examples(200))
@given(sends)
def test_agrees_with_one_that_keeps_everything(sent):
    state, plain, next_offset = ProducerState(100), PlainState(), 0
    for now_ms, (producer, epoch, sequence, count) in enumerate(sent):
        sequences = [(sequence + number) % SEQUENCES for number in range(count)]
        header = BatchHeader(0, 0, 0, 2, 0, 0, count - 1, 0, 0, producer, epoch, sequence, count)
        judged = plain.judge(producer, epoch, sequences)
        try:
            repeated = state.find_repeated(header)
        except SiltstoneError as refusal:
            assert type(refusal) is judged
            continue
        assert judged == (None if repeated is None else repeated.base_offset)
        if repeated is None:
            state.appended(header, next_offset, -1, now_ms)
            plain.taken.setdefault(producer, []).append((epoch, sequences, next_offset))
            next_offset += count
        state = ProducerState(100, tuple(state.entries()))
