"""Which commands are events of the audit, with what was before and after."""

from typing import Any

import pytest

from siltstone.metadata.acls import CreateAcls, DeleteAcls, SetAuthorization
from siltstone.metadata.changes import (
    _CHANGES,
    AuditNote,
    AuditNoteDamaged,
    changes_of,
    note_command,
    note_of,
    waiting_notes,
)
from siltstone.metadata.commands import (
    AddPartitions,
    AlterTopicConfigs,
    CancelJob,
    Command,
    CreateTopic,
    DeleteTopic,
    DrainNode,
    MovePartitions,
    PutKey,
    RegisterNode,
    RemoveKey,
    StartJob,
)
from siltstone.metadata.decisions.table import DECISIONS
from siltstone.metadata.levels import RaiseLevel
from siltstone.metadata.node_address import NODE_LISTENER_KEY
from siltstone.metadata.quotas import AlterQuotas, QuotaChange
from siltstone.metadata.users import AlterUsers, EndSessions
from siltstone.model.access import ScramMechanism
from siltstone.model.acls import AclOperation, AclResourceType, AuthorizationMode
from siltstone.model.audit import TEXT_CHARACTERS, AuditEvent, AuditKind
from siltstone.model.quotas import QuotaKey, entity_of
from support.metadata.metadata_world import MetadataWorld
from support.security.audit import CHANGED
from support.security.credentials import users_command
from support.security.rights import allow

NOT_AUDITED = {
    # What nodes and jobs do by themselves: the audit would be a copy of the metadata log.
    "RegisterNode", "ResumeNode", "PromiseFeature", "ClaimFailover", "CreateStream", "OpenStream", "CloseStream",
    "TrimStream", "DeleteStream", "PrepareObjects", "CommitUpload", "CommitCompaction", "CommitKeyCompaction",
    "RollSegments", "TrimStreams", "ExpireObjects", "ForgetObjects", "OpenPartition", "GiveUpPartitions",
    "PlacePartitions", "TakeNumbers", "RegisterBuckets", "PrepareCopies", "AddCopies", "WithdrawCopies", "AskFlush",
    "AnswerFlush",
    # Runs of maintenance are read from the image: their commands come from other processes.
    "StartJob", "RenewJob", "ShortenLease", "FinishJob",
    # Scans and sinks.
    "PinScan", "UnpinScan", "BeginSinkBatch", "CommitSinkBatch",
}  # fmt: skip
BINDING = allow(AclOperation.READ, AclResourceType.TOPIC, "t")


def test_au03_a_level_that_is_raised_is_an_event_once() -> None:
    world = MetadataWorld()
    before = world.image
    assert world.do(RaiseLevel(2, "0.1.0")) == 2
    (event,) = changes_of(RaiseLevel(2, "0.1.0"), before, world.image)
    assert (event.event, event.operation, event.resource) == (AuditKind.MODE, "RAISE", "level")
    assert (event.before, event.after) == ("1", "2, by siltstone 0.1.0")
    assert changes_of(RaiseLevel(2, "0.1.0"), world.image, world.image) == []


def test_au03_each_command_is_an_event_or_is_known_not_to_be_one() -> None:
    """A new command is thought of."""
    named = {kind.__name__ for kind in DECISIONS}
    audited = {kind.__name__ for kind in _CHANGES}
    assert named == audited | NOT_AUDITED and not audited & NOT_AUDITED


def registered() -> MetadataWorld:
    world = MetadataWorld()
    world.do(RegisterNode(7, "life", "wal", failover=False))
    world.do(RegisterNode(8, "other life", "wal"))
    world.do(CreateTopic(7, 1, "t", "a" * 32, 2, configs={"retention.ms": "5"}, leaders=(7, 7)))
    world.do(users_command(ada="pencil"))
    world.do(CreateAcls((BINDING,)))
    world.do(AlterQuotas((QuotaChange(entity_of(user="ada"), ((QuotaKey.PRODUCER_BYTE_RATE, 9.0),)),)))
    return world


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (CreateTopic(7, 1, "u", "b" * 32, 1), ("topic", "CREATE", "topic u", "", "partitions=1")),
        (AddPartitions(7, 1, "a" * 32, 5), ("topic", "ALTER", "topic t", "partitions=2", "partitions=5")),
        (
            AlterTopicConfigs("a" * 32, put={"x": "1"}, remove=("retention.ms",)),
            ("config", "ALTER_CONFIGS", "topic t", "retention.ms=5", "x=1"),
        ),
        (DeleteTopic(7, 1, "a" * 32), ("topic", "DELETE", "topic t", "partitions=2, retention.ms=5", "")),
        (
            MovePartitions((("a" * 32, 1, 7),)),
            ("topic", "MOVE", "topic t", "partition=1, leader=7", "partition=1, leader=7"),
        ),
        (
            AlterUsers(removals=(("ada", ScramMechanism.SCRAM_SHA_256),)),
            (
                "user", "ALTER", "user ada", "SCRAM-SHA-256 rounds=4096, SCRAM-SHA-512 rounds=4096",
                "SCRAM-SHA-512 rounds=4096",
            ),
        ),
        (EndSessions("User:ada"), ("session_end", "", "principal User:ada", "", "")),
        (DeleteAcls((BINDING,)), ("acl", "DELETE", "topic t", str(BINDING), "")),
        (
            SetAuthorization(AuthorizationMode.ON, added=("User:root",)),
            ("mode", "", "authorization", "off, super users: none", "on, super users: User:root"),
        ),
        (
            AlterQuotas((QuotaChange(entity_of(user="ada"), ((QuotaKey.PRODUCER_BYTE_RATE, None),)),)),
            ("quota", "ALTER", "user ada", "producer_byte_rate=9", ""),
        ),
        (DrainNode(7), ("node", "DRAIN", "node 7", "", "")),
        (
            PutKey(NODE_LISTENER_KEY, b"SECURE"),
            ("node", "SET_LISTENER", "listener of the nodes", "", "SECURE"),
        ),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Command) else "",
)  # fmt: skip
def test_au03_a_command_is_one_event(command: Command[Any], expected: tuple[str, ...]) -> None:
    world = registered()
    before = world.image
    world.do(command)
    (event,) = changes_of(command, before, world.image)
    assert tuple(str(getattr(event, name)) for name in CHANGED) == expected


@pytest.mark.parametrize(
    "command",
    [
        users_command(ada="pencil"),
        CreateAcls((BINDING,)),
        AlterQuotas((QuotaChange(entity_of(user="bob"), ((QuotaKey.PRODUCER_BYTE_RATE, None),)),)),
        SetAuthorization(),
        AlterTopicConfigs("a" * 32, put={"retention.ms": "5"}),
        PutKey("another key", b"1"),
        RemoveKey(NODE_LISTENER_KEY),
    ],
    ids=lambda each: type(each).__name__,
)
def test_au03_a_command_that_changes_nothing_is_no_event(command: Command[Any]) -> None:
    world = registered()
    before = world.image
    world.do(command)
    assert changes_of(command, before, world.image) == []


def test_a_new_password_of_the_same_strength_is_an_event_without_it() -> None:
    world = registered()
    before = world.image
    command = users_command(ada="another")
    world.do(command)
    (event,) = changes_of(command, before, world.image)
    assert event.before == event.after and "another" not in repr(event)


def test_a_cancelled_job_is_named_by_its_kind() -> None:
    world = registered()
    job = world.do(StartJob("sweep", "desk", 60_000))
    before = world.image
    command = CancelJob(job, "cancelled by hand")
    world.do(command)
    (event,) = changes_of(command, before, world.image)
    assert (event.operation, event.outcome, event.after) == ("SWEEP", "cancelled", "cancelled by hand")


def test_what_is_long_is_cut() -> None:
    world = registered()
    before = world.image
    command = AlterTopicConfigs("a" * 32, put={"x": "y" * 10 * TEXT_CHARACTERS})
    world.do(command)
    (event,) = changes_of(command, before, world.image)
    assert len(event.after) == TEXT_CHARACTERS


def test_a_note_is_read_again_and_a_broken_one_is_named() -> None:
    note = AuditNote(5, AuditEvent(event=AuditKind.MODE, resource="authorization"))
    command = note_command("a", note)
    assert note_of(command.value) == note
    keys = {command.key: command.value, "other": b"", "audit-note/0": b""}
    assert waiting_notes(keys) == ["audit-note/0", "audit-note/a"]
    for broken in (b"", b"{", b"\xff", b'{"time_ms":"x"}'):
        with pytest.raises(AuditNoteDamaged, match="left out"):
            note_of(broken)
