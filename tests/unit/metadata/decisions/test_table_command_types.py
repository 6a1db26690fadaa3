from typing import Any

import pytest

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import (
    AlterTopicConfigs,
    Command,
    CreateStream,
    CreateTopic,
    OpenStream,
    PutKey,
    RegisterNode,
    TakeNumbers,
    TrimStream,
)
from siltstone.metadata.decisions.table import check_types
from siltstone.metadata.refusals import CommandMalformed
from siltstone.metadata.store.memory import MemoryLog
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.processes.case_names import name_of

MALFORMED: list[Command[Any]] = [
    CreateStream(0, 0, {"year": 2013}),  # type: ignore[dict-item]
    CreateStream(0, 0, ["topic"]),  # type: ignore[arg-type]
    CreateStream(0, 0, {"topic": "\ud800"}),
    CreateStream(0, 0, {"topic": object()}),  # type: ignore[dict-item]
    OpenStream(0, 0, "a", 0),  # type: ignore[arg-type]
    OpenStream(0, 0, 0, 1 << 64),
    OpenStream(0, 0, 0, True),
    TrimStream(0, 0, 0, 0, 1.5),  # type: ignore[arg-type]
    PutKey("a", "text"),  # type: ignore[arg-type]
    CreateTopic(0, 0, "a", "0" * 32, 1, configs={"retention.ms": 1000}),  # type: ignore[dict-item]
    CreateTopic(0, 0, "\ud800", "0" * 32, 1),
    AlterTopicConfigs("0" * 32, {}, ("a", 1)),  # type: ignore[arg-type]
    TakeNumbers("ids", 1.0),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("command", MALFORMED, ids=name_of)
def test_what_readers_of_the_log_would_refuse_is_refused_before(command: Command[Any]) -> None:
    with pytest.raises(
        CommandMalformed, match=f"a {type(command).__name__} has a field of the wrong type .*; correct it"
    ):
        check_types(command)


def test_a_command_as_its_class_says_passes() -> None:
    check_types(CreateStream(0, 0, {"topic": "größe"}))
    check_types(PutKey("a", b"\x00\xff"))
    check_types(OpenStream(0, 0, 0, (1 << 63) - 1))


@pytest.mark.parametrize("command", MALFORMED, ids=name_of)
def test_the_log_can_be_read_after_a_malformed_command_and_others_of_its_append_stand(
    command: Command[Any],
) -> None:
    log = MemoryLog()
    client = MetadataClient(log, ManualClock(), seeded_randomness(1))
    client.execute(RegisterNode(0, "first", "file:///wal"))
    before, refused, after = client.execute_all([PutKey("b", b"1"), command, PutKey("c", b"2")])
    assert isinstance(refused, CommandMalformed) and (before, after) == (b"1", b"2")
    assert MetadataClient(log, ManualClock(), seeded_randomness(2)).image == client.image
