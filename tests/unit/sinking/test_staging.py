"""What a task leaves for the driver: few rows come along in its report, many lie in objects of the bucket."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from siltstone.kafka_client.consuming import whole_batches
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.records.reading import iterate_records
from siltstone.object_store.memory import MemoryStore
from siltstone.offline.tasks import source_bytes as stores
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.sinking.failures import SinkRefused
from siltstone.sinking.manifest import manifest_of
from siltstone.sinking.plan import SinkPlan, TopicPlace
from siltstone.sinking.staging import (
    StagedPart,
    TaskReport,
    decode_report,
    encode_report,
    stage_rows,
)

FOLDER = "staging/out/3/"
CLOCK = ManualClock(now_ms=1_700_000_000_000)
LONG = 2**62


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    made = MemoryStore(CLOCK, "staging-tests")
    stores._opened[made.url] = made
    yield made
    del stores._opened[made.url]


def staged(
    store: MemoryStore, *batches: Any, task_number: int = 5, seed: int = 1, **limits: int
) -> TaskReport:
    places = tuple(
        TopicPlace(name, f"id-{name}", ids, Codec.NONE, 1_000_000, False, True, LONG, LONG)
        for name, ids in (("a", (10, 11)), ("b", (20,)))
    )
    plan = SinkPlan(1, "store", store.url, "a", "value binary", places)
    return stage_rows(
        plan,
        batches,
        folder=FOLDER,
        task_number=task_number,
        query_id="query",
        clock=CLOCK,
        **limits,
        rng=seeded_randomness(seed),
    )


def rows(*values: tuple[str, int, bytes]) -> Any:
    topics, partitions, texts = zip(*values, strict=True)
    return pa.record_batch(
        {"topic": list(topics), "partition": pa.array(partitions, pa.int32()), "value": list(texts)}
    )


def values(store: MemoryStore, report: TaskReport) -> list[tuple[int, list[bytes]]]:
    """Stream id and values of each part."""
    manifest = manifest_of([report])
    found = []
    for part in manifest.parts:
        data = memoryview(manifest.bytes_of(store, part))
        batches = [bytes(batch) for _, batch in whole_batches(data)]
        read = [bytes(record.value or b"") for batch in batches for record in iterate_records(batch)]
        assert len(read) == part.record_count and sum(map(len, batches)) == part.size_bytes
        found.append((part.stream_id, read))
    return found


FEW = [("b", 0, b"1"), ("a", 1, b"2"), ("a", 0, b"3"), ("b", 0, b"4")]


def test_few_rows_come_along_in_the_report_and_no_object_is_written(store: MemoryStore) -> None:
    report = staged(store, rows(*FEW))
    assert values(store, report) == [(10, [b"3"]), (11, [b"2"]), (20, [b"1", b"4"])]
    assert report.inline and {part.key for part in report.parts} == {""}
    assert list(store.list()) == []
    assert (report.task_number, report.query_id, report.staged_ms) == (5, "query", CLOCK.now_ms())
    assert [(part.topic, part.topic_id, part.partition) for part in report.parts] == [
        ("a", "id-a", 0), ("a", "id-a", 1), ("b", "id-b", 0),
    ]  # fmt: skip


def test_more_than_the_report_may_carry_lies_in_one_object(store: MemoryStore) -> None:
    size = sum(part.size_bytes for part in staged(store, rows(*FEW)).parts)
    assert staged(store, rows(*FEW), inline_bytes_max=size).inline
    report = staged(store, rows(*FEW), inline_bytes_max=size - 1)
    assert report.inline == b""
    (held,) = store.list()
    assert held.size_bytes == size and held.key.startswith(f"{FOLDER}5-") and held.key.endswith("-0")
    assert values(store, report) == [(10, [b"3"]), (11, [b"2"]), (20, [b"1", b"4"])]


def test_a_task_with_many_rows_writes_one_object_after_another_and_all_of_its_rows(
    store: MemoryStore,
) -> None:
    batches = [rows(("a", 0, b"%d" % n * 1_000), ("b", 0, b"x")) for n in range(5)]
    report = staged(store, *batches, held_bytes_max=2_500)
    assert report.inline == b"" and len({part.key for part in report.parts}) == 2
    assert sorted(each.key for each in store.list()) == sorted({part.key for part in report.parts})
    assert values(store, report) == [
        (10, [b"0" * 1_000, b"1" * 1_000, b"2" * 1_000]),
        (20, [b"x"] * 3),
        (10, [b"3" * 1_000, b"4" * 1_000]),
        (20, [b"x"] * 2),
    ], "the rest is an object, too, though it is small"


def test_rows_of_batches_that_are_encoded_already_count_as_held(store: MemoryStore) -> None:
    """A record batch that is full waits in memory like rows that are not encoded yet."""
    full = rows(*[("a", 0, bytes(900_000))] * 3)  # two record batches, and an open one
    report = staged(store, full, rows(("a", 0, b"last")), held_bytes_max=2_000_000)
    assert [len(found) for _, found in values(store, report)] == [3, 1]


def test_two_attempts_of_a_task_write_objects_of_different_names(store: MemoryStore) -> None:
    first, second = (staged(store, rows(*FEW), seed=seed, inline_bytes_max=0) for seed in (1, 2))
    assert first.parts[0].key != second.parts[0].key
    assert values(store, first) == values(store, second)


def test_a_task_without_rows_stages_nothing(store: MemoryStore) -> None:
    report = staged(store)
    assert (report.parts, report.inline, list(store.list())) == ((), b"", [])


def test_a_report_reaches_the_driver_and_that_of_another_version_is_refused() -> None:
    part = StagedPart("a", "id-a", 0, 10, "", 0, 3, 1)
    report = TaskReport(1, 5, "query", 7, (part,), b"abc")
    assert decode_report(encode_report(report)) == report
    with pytest.raises(SinkRefused, match="an executor runs another version of siltstone"):
        decode_report(encode_report(TaskReport(2, 5, "query", 7, (), b"")))
