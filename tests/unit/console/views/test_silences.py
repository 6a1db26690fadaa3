from collections.abc import Callable

import pytest

from siltstone.console.charts import silence_timeline
from siltstone.console.views.silences import (
    NOT_YET,
    SILENCES_MAX,
    SeenSilences,
    Silence,
    SilenceBook,
    all_silences,
    logged_silences,
)
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import NO_EPOCH, NO_NODE, JobState, NodeMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry
from siltstone.metadata.records import (
    FailoverClaimed,
    JobFinished,
    NodeFenced,
    NodeRegistered,
    NodeResumed,
    Record,
    TopicCreated,
)


def node(
    number: int, epoch: int = 1, *, fenced: bool = False, failover: bool = False, by: int = NO_NODE
) -> NodeMetadata:
    return NodeMetadata(number, epoch, "life", failover, "wal", is_fenced=fenced, claimed_by=by)


class Seen:
    """What a console sees, a second apart."""

    def __init__(self, silence_from: Callable[[int], int | None] = lambda _: None) -> None:
        self.silences = SeenSilences(silence_from)
        self.now_ms = 10_000

    def see(self, *nodes: NodeMetadata) -> list[Silence]:
        self.silences.add(
            MetadataImage(nodes=ShardedMap((each.node_id, each) for each in nodes)), self.now_ms
        )
        self.now_ms += 1_000
        return list(self.silences)


def test_a_node_that_returns_was_silent_from_its_last_beat_on():
    seen = Seen(lambda node_id: 7_000 if node_id == 1 else None)
    assert seen.see(node(0), node(1)) == []
    (lasting,) = seen.see(node(0), node(1, fenced=True))
    assert (lasting.node_id, lasting.from_ms, lasting.until_ms) == (1, 7_000, NOT_YET)
    assert lasting.seconds(9_500) == 2.5
    (ended,) = seen.see(node(0), node(1))
    assert (ended.until_ms, ended.ended, ended.seconds(99_000)) == (12_000, "it returned", 5.0)


def test_a_failover_names_the_node_that_replayed_the_log():
    seen = Seen()
    seen.see(node(0), node(1))
    seen.see(node(0), node(1, fenced=True))
    seen.see(node(0), node(1, fenced=True, by=0))
    seen.see(node(0), node(1, 2, failover=True, by=0))
    (ended,) = seen.see(node(0), node(1, 2, failover=True))
    assert (ended.from_ms, ended.until_ms, ended.ended) == (11_000, 14_000, "node 0 replayed its log")
    assert len(seen.see(node(0), node(1, 3))) == 1, "its next start begins and ends nothing"


def test_a_node_that_is_started_again_has_another_life():
    seen = Seen()
    seen.see(node(1))
    seen.see(node(1, fenced=True))
    (ended,) = seen.see(node(1, 2))
    assert ended.ended == "it was started again"


def test_a_console_that_begins_during_a_silence_or_after_it():
    (lasting,) = Seen(lambda _: 3_000).see(node(1, fenced=True))
    assert lasting.from_ms == 3_000
    assert Seen().see(node(1, 2, failover=True)) == [], "it ended before"
    (of_a_failover,) = Seen().see(node(1, 2, failover=True, by=0))
    assert of_a_failover.claimed_by == 0


def test_old_silences_make_room():
    book = SilenceBook()
    for number in range(SILENCES_MAX + 5):
        book.begins(1, number, number)
        book.ends(1, number, "it returned")
    assert [each.node_epoch for each in book] == list(range(5, SILENCES_MAX + 5))


def entries(*records: Record) -> list[tuple[int, LogEntry]]:
    return [(number, LogEntry("0" * 32, (each,))) for number, each in enumerate(records, 1)]


def at(time_ms: int) -> Record:
    return TopicCreated(f"{time_ms:032x}", f"t{time_ms}", (), {}, 1, time_ms, False)


@pytest.mark.parametrize(
    ("records", "until_ms", "ended"),
    [
        ((), NOT_YET, ""),
        ((at(5_000), NodeResumed(1, 1)), 5_000, "it returned"),
        ((at(5_000), NodeRegistered(1, 2, "life", False, "wal")), 5_000, "it was started again"),
        (
            (
                FailoverClaimed(1, 0, 1),
                at(6_000),
                NodeRegistered(1, 2, "x", True, "wal"),
                FailoverClaimed(1, NO_NODE, NO_EPOCH),
            ),
            6_000,
            "node 0 replayed its log",
        ),
        ((FailoverClaimed(1, 0, 1), FailoverClaimed(1, NO_NODE, NO_EPOCH)), NOT_YET, ""),
    ],
)
def test_the_log_has_earlier_silences(records: tuple[Record, ...], until_ms: int, ended: str):
    (found,) = logged_silences(entries(at(3_000), NodeFenced(1, 1), *records))
    assert (found.node_id, found.from_ms, found.until_ms, found.ended, found.is_rough) == (
        1,
        3_000,
        until_ms,
        ended,
        True,
    )


def test_a_silence_before_the_first_known_time_is_as_long_as_nothing():
    (found,) = logged_silences(entries(NodeFenced(1, 1), at(4_000), NodeResumed(1, 1)))
    assert found.seconds(9_000) == 0
    assert logged_silences(entries(NodeFenced(1, 1))) == [], "no time is known at all"
    assert logged_silences(entries(JobFinished(1, JobState.SUCCEEDED, 9_000, ""))) == []


def test_what_was_seen_counts_more_than_the_log():
    def silence(node_id: int, epoch: int, from_ms: int, *, is_rough: bool) -> Silence:
        return Silence(node_id=node_id, node_epoch=epoch, from_ms=from_ms, is_rough=is_rough)

    seen = [silence(1, 1, 5_000, is_rough=False)]
    logged = [silence(1, 1, 4_000, is_rough=True), silence(2, 1, 9_000, is_rough=True)]
    found = all_silences(logged, seen)
    assert [(each.node_id, each.from_ms) for each in found] == [(2, 9_000), (1, 5_000)]
    assert (
        len(all_silences([silence(n, 1, n, is_rough=True) for n in range(SILENCES_MAX + 9)], ()))
        == SILENCES_MAX
    )


def test_the_timeline_has_a_line_for_each_node_and_escapes():
    silences = [
        Silence(node_id=1, node_epoch=1, from_ms=0, until_ms=10),
        Silence(node_id=2, node_epoch=1, from_ms=900, is_rough=True),
    ]
    drawn = silence_timeline(silences, 1_000, lambda each: f"<{each.node_id}>")
    assert drawn.count('class="life"') == 2 and "&lt;1&gt;" in drawn and 'class="silence rough"' in drawn
    assert 'x="0.0" y="2" width="7.2"' in drawn and 'x="648.0" y="22" width="72.0"' in drawn
    assert silence_timeline([], 0, str) == ""
