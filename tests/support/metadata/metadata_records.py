"""A record of every kind, for the tests of their bytes."""

from siltstone.metadata.entities import NO_NODE, JobState, NodeListener, PartitionMetadata
from siltstone.metadata.records import (
    AclsCreated,
    AclsDeleted,
    AuthorizationSet,
    BucketLost,
    CopiesAdded,
    CopiesPrepared,
    CopiesUncertain,
    FailoverClaimed,
    JobFinished,
    JobForgotten,
    JobRenewed,
    JobStarted,
    KeyRemoved,
    KeySet,
    LevelRaised,
    LogMoved,
    NodeDraining,
    NodeFenced,
    NodeRegistered,
    NodeResumed,
    NodeUnregistered,
    NumbersTaken,
    ObjectCommitted,
    ObjectsDestroyed,
    ObjectsForgotten,
    ObjectsPrepared,
    PartitionsAdded,
    PartitionsMoving,
    PartitionsPlaced,
    QuotaRemoved,
    QuotaSet,
    RangesLost,
    Record,
    ScanPinned,
    ScanUnpinned,
    ScramCredentialRemoved,
    ScramCredentialSet,
    SegmentsRolled,
    SessionsEnded,
    StreamCleaned,
    StreamClosed,
    StreamCreated,
    StreamDeleted,
    StreamForgotten,
    StreamOpened,
    StreamsAdvanced,
    StreamsLoaded,
    StreamTrimmed,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from siltstone.model.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclResourceType,
    AuthorizationMode,
    PatternType,
    Permission,
)
from siltstone.model.objects import ObjectKind, ObjectRange
from siltstone.model.quotas import QuotaKey, entity_of
from siltstone.model.segments import ClosedSegment

BEYOND_32_BITS = 2**40 + 7

STREAMS_AND_OBJECTS: tuple[Record, ...] = (
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

TOPIC_ID = "00112233445566778899aabbccddeeff"
TOPICS: tuple[Record, ...] = (
    TopicCreated(
        TOPIC_ID,
        "flights",
        (PartitionMetadata(3, 4), PartitionMetadata(BEYOND_32_BITS, BEYOND_32_BITS + 1)),
        {"cleanup.policy": "compact"},
        3,
        1_700_000_000_000,
        True,
    ),
    PartitionsAdded(TOPIC_ID, (PartitionMetadata(5, 6),)),
    TopicConfigured(TOPIC_ID, {"retention.ms": "-1"}),
    TopicDeleted(TOPIC_ID),
    NumbersTaken("producer ids", BEYOND_32_BITS),
)
MAINTENANCE: tuple[Record, ...] = (
    SegmentsRolled(
        ((3, ClosedSegment(5, 9, 700, 2, 1_700_000_000_000, 1_600_000_000_000, 1_650_000_000_000)),)
    ),
    StreamCleaned(3, 7),
)
MEMBERSHIP: tuple[Record, ...] = (
    NodeRegistered(1, 3, "again", False, "/wal", (NodeListener("PLAINTEXT", "host0", 9092),), "rack-a"),
    NodeFenced(1, 3),
    NodeResumed(1, 3),
    NodeDraining(1),
    NodeUnregistered(1),
    FailoverClaimed(1, 2, 7),
    TopicCreated(
        TOPIC_ID, "led", (PartitionMetadata(3, 4, 1), PartitionMetadata(5, 6, 1, 2)), {}, 1, 0, False
    ),
    PartitionsPlaced(TOPIC_ID, ((0, 2), (1, 3))),
    PartitionsMoving(TOPIC_ID, ((0, 3), (1, NO_NODE))),
)
SINKS: tuple[Record, ...] = (StreamsLoaded(((3, 4, BEYOND_32_BITS), (5, 0, 7))),)
SCANS: tuple[Record, ...] = (
    ScanPinned("query-1", 1_700_000_000_000, "host process 7: flights"),
    ScanUnpinned("query-1"),
)
COPIES: tuple[Record, ...] = (
    CopiesPrepared((5, BEYOND_32_BITS), 2),
    CopiesAdded((5,), 2),
    CopiesUncertain((5, 6), 0),
    BucketLost(1),
    RangesLost(1, ((3, 0, BEYOND_32_BITS), (4, 7, 9))),
)
SALT = b"\x00\xff\x10"
USERS: tuple[Record, ...] = (
    ScramCredentialSet("ada", 1, SALT, b"\x01" * 32, b"\x02" * 32, 4096),
    ScramCredentialRemoved("ada", 2),
    SessionsEnded("User:CN=svc"),
)
MAY_READ = AclBinding(
    AclResourceType.TOPIC, PatternType.PREFIXED, "fl", "User:ada", "*", AclOperation.READ, Permission.ALLOW
)
MAY_NOTHING = AclBinding(
    AclResourceType.CLUSTER,
    PatternType.LITERAL,
    CLUSTER_NAME,
    "User:CN=svc",
    "10.0.0.7",
    AclOperation.ALL,
    Permission.DENY,
)
ACLS: tuple[Record, ...] = (
    AclsCreated((MAY_READ, MAY_NOTHING)),
    AclsDeleted((MAY_NOTHING,)),
    AuthorizationSet(AuthorizationMode.ON, ("User:ada",)),
)
ADAS_DEFAULT = entity_of(user="ada", client_id=None)
OF_AN_ADDRESS = entity_of(ip="10.0.0.7")
QUOTAS: tuple[Record, ...] = (
    QuotaSet(ADAS_DEFAULT, QuotaKey.PRODUCER_BYTE_RATE, 1_048_576.0),
    QuotaSet(OF_AN_ADDRESS, QuotaKey.CONNECTION_CREATION_RATE, 5.0),
    QuotaRemoved(ADAS_DEFAULT, QuotaKey.REQUEST_PERCENTAGE),
)
LEVELS: tuple[Record, ...] = (LevelRaised(2, "0.1.0", 1_700_000_000_000),)
MOVING = (LogMoved("postgresql://siltstone@host/database?schema=siltstone"),)
ONE_OF_EACH = (
    *STREAMS_AND_OBJECTS,
    *TOPICS,
    *MAINTENANCE,
    *MEMBERSHIP,
    *SINKS,
    *SCANS,
    *COPIES,
    *USERS,
    *ACLS,
    *QUOTAS,
    *LEVELS,
    *MOVING,
)
