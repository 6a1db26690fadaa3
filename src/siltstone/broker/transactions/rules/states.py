"""The life of a transactional id as a table: event → state → (steps, next state). ``deciding.decide`` walks the table.

A rule is either a refusal (the request is answered with that error and nothing changes) or a list of steps. *Dead* has
no rules: an id in this state is removed from memory at once.

CONCURRENT_TRANSACTIONS means that a transaction is prepared and its markers are on their way: the client asks again.

Source: KIP-98, KIP-360 (recovery after an error), KIP-890 (transaction version 2), and what Apache Kafka 4.3 does.
"""

from collections.abc import Mapping
from enum import Enum, auto

import msgspec

from siltstone.broker.transactions.state_log.record import TransactionState
from siltstone.kafka_protocol.error_code import ErrorCode


class TransactionEvent(Enum):
    # -- InitProducerId
    PRODUCER_STARTS = "a producer asks for an epoch, and names none"
    PRODUCER_CONTINUES = "a producer asks for an epoch, and names the current one"
    START_REPEATED = "a producer asks again for the epoch that it was given: the answer was lost"
    EPOCHS_USED_UP = "a producer asks for an epoch, and its producer id has none left"
    STALE_PRODUCER_STARTS = "a producer asks for an epoch, and names one that is fenced"
    # -- AddPartitionsToTxn, AddOffsetsToTxn, first batches
    PARTITIONS_ADDED = "a producer adds partitions"
    KNOWN_PARTITIONS_ADDED = "a producer adds partitions that are in its transaction"
    # -- EndTxn of clients of transaction version 0 and 1
    COMMIT = "a producer commits"
    ABORT = "a producer aborts"
    # -- EndTxn of clients of transaction version 2
    BUMPING_COMMIT = "a producer commits, and gets another epoch"
    BUMPING_ABORT = "a producer aborts, and gets another epoch"
    REPEATED_COMMIT = "a producer commits again with the epoch before: the answer was lost"
    REPEATED_ABORT = "a producer aborts again with the epoch before: the answer was lost"
    # -- the coordinator itself
    MARKERS_WRITTEN = "every partition has its marker"
    TIME_IS_OVER = "the transaction is open for longer than its timeout"
    ID_EXPIRES = "nothing happened to the transactional id for a long time"


class TransactionStep(Enum):
    NEXT_EPOCH = auto()
    KEEP_EPOCH = auto()
    NEW_PRODUCER_ID = auto()
    CLEAR = auto()
    BEGIN = auto()
    ADD_PARTITIONS = auto()
    END_EPOCH = auto()
    SEND_MARKERS = auto()
    FINISH = auto()
    ANSWER_EPOCH = auto()
    ANSWER_NEXT_EPOCH = auto()
    ANSWER_DONE = auto()
    ANSWER_ASK_AGAIN = auto()
    RECORD = auto()


class TransactionRule(msgspec.Struct, frozen=True):
    """``steps`` are taken in order, and leave the transaction in state ``to``. A rule with a ``refusal`` has no
    steps."""

    to: TransactionState
    steps: tuple[TransactionStep, ...] = ()
    refusal: ErrorCode | None = None


EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
DEAD = TransactionState.DEAD
_ALL = (EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT)
_AT_REST = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)

ASK_AGAIN = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.PRODUCER_FENCED


def _does(to: TransactionState, *steps: TransactionStep) -> TransactionRule:
    return TransactionRule(to=to, steps=(*steps, TransactionStep.RECORD))


def _answers(state: TransactionState, step: TransactionStep) -> TransactionRule:
    """Nothing changes, and nothing is written."""
    return TransactionRule(to=state, steps=(step,))


def _refuses(state: TransactionState, refusal: ErrorCode) -> TransactionRule:
    return TransactionRule(to=state, refusal=refusal)


def _refusals(refusals: Mapping[TransactionState, ErrorCode]) -> dict[TransactionState, TransactionRule]:
    return {state: _refuses(state, refusal) for state, refusal in refusals.items()}


_WAITING = _refusals({PREPARE_COMMIT: ASK_AGAIN, PREPARE_ABORT: ASK_AGAIN})
_FENCE = (TransactionStep.END_EPOCH, TransactionStep.SEND_MARKERS)
"""Whatever version the client speaks, the epoch rises: a batch that is on its way is refused."""


def _starts(*steps: TransactionStep) -> dict[TransactionState, TransactionRule]:
    """InitProducerId. An open transaction is aborted first: its client cannot continue, or is another instance. The
    client asks again, and then gets its epoch."""
    rest = {
        state: _does(EMPTY, *steps, TransactionStep.CLEAR, TransactionStep.ANSWER_EPOCH) for state in _AT_REST
    }
    return rest | _WAITING | {ONGOING: _does(PREPARE_ABORT, *_FENCE, TransactionStep.ANSWER_ASK_AGAIN)}


_ENDS = (TransactionStep.SEND_MARKERS, TransactionStep.ANSWER_EPOCH)
_ENDS_BUMPING = (TransactionStep.END_EPOCH, TransactionStep.SEND_MARKERS, TransactionStep.ANSWER_NEXT_EPOCH)
_NOTHING_ABORTED = (TransactionStep.BEGIN, *_ENDS_BUMPING)
"""The abort of a client that has added no partition."""

TABLE: Mapping[TransactionEvent, Mapping[TransactionState, TransactionRule]] = {
    TransactionEvent.PRODUCER_STARTS: _starts(TransactionStep.NEXT_EPOCH),
    TransactionEvent.PRODUCER_CONTINUES: _starts(TransactionStep.NEXT_EPOCH),
    TransactionEvent.START_REPEATED: _starts(TransactionStep.KEEP_EPOCH),
    TransactionEvent.EPOCHS_USED_UP: _starts(TransactionStep.NEW_PRODUCER_ID),
    TransactionEvent.STALE_PRODUCER_STARTS: _starts()
    | _refusals({EMPTY: FENCED, COMPLETE_COMMIT: FENCED, COMPLETE_ABORT: FENCED}),
    TransactionEvent.PARTITIONS_ADDED: {
        state: _does(
            ONGOING, TransactionStep.BEGIN, TransactionStep.ADD_PARTITIONS, TransactionStep.ANSWER_DONE
        )
        for state in _AT_REST
    }
    | _WAITING
    | {ONGOING: _does(ONGOING, TransactionStep.ADD_PARTITIONS, TransactionStep.ANSWER_DONE)},
    TransactionEvent.KNOWN_PARTITIONS_ADDED: {ONGOING: _answers(ONGOING, TransactionStep.ANSWER_DONE)},
    TransactionEvent.COMMIT: {
        ONGOING: _does(PREPARE_COMMIT, *_ENDS),
        # The same outcome again is a repetition whose answer was lost.
        COMPLETE_COMMIT: _answers(COMPLETE_COMMIT, TransactionStep.ANSWER_EPOCH),
    }
    | _refusals({EMPTY: INVALID, PREPARE_COMMIT: ASK_AGAIN, PREPARE_ABORT: INVALID, COMPLETE_ABORT: INVALID}),
    TransactionEvent.ABORT: {
        ONGOING: _does(PREPARE_ABORT, *_ENDS),
        COMPLETE_ABORT: _answers(COMPLETE_ABORT, TransactionStep.ANSWER_EPOCH),
    }
    | _refusals(
        {EMPTY: INVALID, PREPARE_COMMIT: INVALID, PREPARE_ABORT: ASK_AGAIN, COMPLETE_COMMIT: INVALID}
    ),
    TransactionEvent.BUMPING_COMMIT: {ONGOING: _does(PREPARE_COMMIT, *_ENDS_BUMPING)}
    | _refusals(
        {
            EMPTY: INVALID,
            PREPARE_COMMIT: FENCED,
            PREPARE_ABORT: FENCED,
            COMPLETE_COMMIT: INVALID,
            COMPLETE_ABORT: INVALID,
        }
    ),
    TransactionEvent.BUMPING_ABORT: {
        EMPTY: _does(PREPARE_ABORT, *_NOTHING_ABORTED),
        ONGOING: _does(PREPARE_ABORT, *_ENDS_BUMPING),
        COMPLETE_COMMIT: _does(PREPARE_ABORT, *_NOTHING_ABORTED),
        COMPLETE_ABORT: _does(PREPARE_ABORT, *_NOTHING_ABORTED),
    }
    | _refusals({PREPARE_COMMIT: FENCED, PREPARE_ABORT: FENCED}),
    TransactionEvent.REPEATED_COMMIT: {
        COMPLETE_COMMIT: _answers(COMPLETE_COMMIT, TransactionStep.ANSWER_EPOCH),
    }
    | _refusals(
        {
            EMPTY: FENCED,
            ONGOING: FENCED,
            PREPARE_COMMIT: ASK_AGAIN,
            PREPARE_ABORT: INVALID,
            COMPLETE_ABORT: INVALID,
        }
    ),
    TransactionEvent.REPEATED_ABORT: {
        COMPLETE_ABORT: _answers(COMPLETE_ABORT, TransactionStep.ANSWER_EPOCH),
    }
    | _refusals(
        {
            EMPTY: FENCED,
            ONGOING: FENCED,
            PREPARE_COMMIT: INVALID,
            PREPARE_ABORT: ASK_AGAIN,
            COMPLETE_COMMIT: INVALID,
        }
    ),
    TransactionEvent.MARKERS_WRITTEN: {
        PREPARE_COMMIT: _does(COMPLETE_COMMIT, TransactionStep.FINISH),
        PREPARE_ABORT: _does(COMPLETE_ABORT, TransactionStep.FINISH),
    },
    TransactionEvent.TIME_IS_OVER: {ONGOING: _does(PREPARE_ABORT, *_FENCE)},
    TransactionEvent.ID_EXPIRES: {state: _does(DEAD) for state in _AT_REST},
}
