"""One record of every kind, for the tests of their bytes."""

from siltstone.metadata.entities import JobState
from siltstone.metadata.records import (
    JobFinished,
    JobForgotten,
    JobRenewed,
    JobStarted,
    KeyRemoved,
    KeySet,
    NodeRegistered,
    ObjectCommitted,
    ObjectsDestroyed,
    ObjectsForgotten,
    ObjectsPrepared,
    Record,
    StreamClosed,
    StreamCreated,
    StreamDeleted,
    StreamForgotten,
    StreamOpened,
    StreamsAdvanced,
    StreamTrimmed,
)
from siltstone.model.objects import ObjectKind, ObjectRange

BEYOND_32_BITS = 2**40 + 7

ONE_OF_EACH: tuple[Record, ...] = (
    NodeRegistered(1, 2, "incarnation", False, "/wal"),
    StreamCreated(3, {"topic": "flights"}),
    StreamOpened(3, 0, 1),
    StreamClosed(3),
    StreamTrimmed(3, BEYOND_32_BITS),
    StreamsAdvanced(((3, 10), (4, BEYOND_32_BITS))),
    StreamDeleted(3),
    StreamForgotten(3),
    ObjectsPrepared(5, 2, 0, 1_700_000_000_000),
    ObjectCommitted(
        5,
        ObjectKind.STREAM_SET_OBJECT,
        BEYOND_32_BITS,
        1_700_000_000_000,
        1_600_000_000_000,
        (ObjectRange(3, 5, 0, 10, 640, 1_600_000_000_001), ObjectRange(4, 5, 7, BEYOND_32_BITS, 64, -1)),
    ),
    ObjectsDestroyed((5, 6), 1_700_000_000_000),
    ObjectsForgotten((5,)),
    KeySet("topic/0", b"\x00\xff"),
    KeyRemoved("topic/0"),
    JobStarted(0, "compaction", "driver", "by hand", 1_700_000_000_000, 1_700_000_120_000),
    JobRenewed(0, 1_700_000_240_000),
    JobFinished(0, JobState.SUCCEEDED, 1_700_000_300_000, "done"),
    JobForgotten(0),
)
