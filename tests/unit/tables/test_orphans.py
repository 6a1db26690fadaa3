"""Which files of a table's folder are deleted: those that a round of ours has left, and no others."""

from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.metadata.entities import JobMetadata, JobState
from siltstone.model.limits import DAY_MS
from siltstone.object_store.memory import MemoryStore
from siltstone.offline.erasures import ErasedRows
from siltstone.runtime.clock import ManualClock
from siltstone.tables.ledger import Ledger, TableIdentity
from siltstone.tables.orphans import ORPHAN_AGE_MS, delete_orphans, delete_replaced

MADE_MS = 1_700_000_000_000
UUID = "0b7ee2cd-58e6-4a2b-b9f7-0f5d6ea0b3a4"


class Folder:
    """A table's folder, whose files are written one ms after the table was made."""

    def __init__(self) -> None:
        self.clock = ManualClock(now_ms=MADE_MS)
        self.store = MemoryStore(self.clock, "tables")
        self.kept: set[str] = set()
        self.jobs: dict[int, JobMetadata] = {}
        self.clock.advance_ms(1)

    def put(self, *paths: str) -> None:
        for path in paths:
            self.store.put(f"kafka/t/{path}", [b"x"])

    def job(self, job_id: int, state: JobState) -> None:
        self.jobs[job_id] = JobMetadata(job_id, "table-export", state, "d", "", 0, 0, 0, "")

    def deleted(self, now_ms: int = MADE_MS + 1 + ORPHAN_AGE_MS, **limits: int) -> list[str]:
        before = self.left()
        ledger = Ledger(identity=TableIdentity("", ""), created_ms=MADE_MS)
        table: Any = SimpleNamespace(name="kafka.t", ledger=ledger, kept_paths=lambda: self.kept)
        count = delete_orphans(self.store, table, self.jobs, now_ms, **limits)
        gone = sorted(set(before) - set(self.left()))
        assert count == len(gone)
        return gone

    def left(self) -> list[str]:
        return [each.key.removeprefix("kafka/t/") for each in self.store.list()]


@pytest.fixture
def folder() -> Folder:
    return Folder()


def data(job_id: int, number: int = 0) -> str:
    return f"data/{job_id}-0123456789abcdef-00000-{number:04}.parquet"


def test_data_files_that_the_table_does_not_list_are_deleted_and_those_of_a_running_job_are_not(
    folder: Folder,
) -> None:
    folder.job(1, JobState.RUNNING)
    folder.job(2, JobState.FAILED)
    folder.job(3, JobState.SUCCEEDED)
    folder.put(*(data(job_id) for job_id in (1, 2, 3, 4)), data(3, 1))
    folder.kept = {data(3)}
    assert folder.deleted() == [data(2), data(3, 1), data(4)]
    assert folder.left() == [data(1), data(3)]


def test_a_file_is_a_day_old_and_not_older_than_its_table(folder: Folder) -> None:
    assert ORPHAN_AGE_MS == DAY_MS
    folder.put(data(1))
    assert folder.deleted(MADE_MS + ORPHAN_AGE_MS) == []
    assert folder.deleted(MADE_MS + 1 + ORPHAN_AGE_MS) == [data(1)]
    older = Folder()
    older.clock = ManualClock(now_ms=MADE_MS - 1)
    older.store = MemoryStore(older.clock, "tables")
    older.put(data(1))
    older.clock.advance_ms(1)
    older.put(data(2))
    assert older.deleted(MADE_MS + 10 * DAY_MS) == [data(2)], "of the moment when it was made"


@pytest.mark.parametrize(
    "path",
    [
        "data/mine.parquet", "data/1-0123456789abcdef-00000-0000.parquet.bak", "data/1-0123-00000-0000.parquet",
        "data/x/1-0123456789abcdef-00000-0000.parquet", "metadata/00001-x.metadata.json", f"metadata/{UUID}.json",
        f"metadata/snap-1-{UUID}.avro", "_siltstone/00000000000000000003.json",
    ],
)  # fmt: skip
def test_files_with_names_that_we_do_not_give_stay(folder: Folder, path: str) -> None:
    folder.put(path)
    assert folder.deleted() == []


def test_manifests_of_icebergs_that_no_snapshot_needs_are_deleted(folder: Folder) -> None:
    old = [f"metadata/snap-123-0-{UUID}.avro", f"metadata/{UUID}-m0.avro"]
    needed = f"metadata/{UUID}-m1.avro"
    folder.put(*old, needed)
    folder.kept = {needed}
    assert folder.deleted() == sorted(old)


def test_what_the_table_needs_is_asked_only_when_something_may_be_deleted(folder: Folder) -> None:
    """That reads all of a table's manifests."""
    ledger = Ledger(identity=TableIdentity("", ""), created_ms=MADE_MS)
    table: Any = SimpleNamespace(name="kafka.t", ledger=ledger)
    folder.put("data/mine.parquet")
    assert delete_orphans(folder.store, table, {}, MADE_MS + 10 * DAY_MS) == 0


def test_many_files_are_deleted_in_several_requests(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    delete = folder.store.delete
    monkeypatch.setattr(folder.store, "delete", lambda keys: (asked.append(len(keys)), delete(keys)))
    folder.put(*(data(1, number) for number in range(7)))
    assert len(folder.deleted(keys_max=3)) == 7
    assert asked == [3, 3, 1]


@pytest.mark.parametrize("keys_max", [1, 1_000])
def test_an_erasure_deletes_what_it_has_shut_out_and_no_state_since_needs(
    keys_max: int, folder: Folder
) -> None:
    verified_ms = folder.clock.now_ms()
    before, at, later = data(3), data(4), data(5)
    manifest, other, foreign = f"metadata/{UUID}-m0.avro", "data/part-1.parquet", "data/part-2.parquet"
    folder.put(before, at, data(4, 1), later, manifest, other, foreign)
    folder.clock.advance_ms(1)
    folder.put(f"metadata/{UUID}-m1.avro")
    rows = ErasedRows(
        table="kafka.t",
        other_files=(("kafka.t", foreign), ("kafka.t__errors", other)),
        verified_ms=verified_ms,
        job_id=4,
        states={"kafka.t": 11},
    )
    asked: list[object] = []

    def paths_since(*since: object) -> set[str]:
        asked.append(since)
        return {data(4, 1)}

    table: Any = SimpleNamespace(name="kafka.t", paths_since=paths_since)
    assert delete_replaced(folder.store, table, rows, keys_max=keys_max) == 4
    assert asked == [(11, verified_ms)]
    assert folder.left() == sorted([data(4, 1), later, other, f"metadata/{UUID}-m1.avro"])


def test_an_erasure_deletes_manifests_of_older_states_where_the_buckets_clock_is_ahead(
    folder: Folder,
) -> None:
    verified_ms = folder.clock.now_ms() - 60_000  # by the driver's clock
    old, list_of_state, later = (
        f"metadata/{UUID}-m0.avro",
        f"metadata/snap-11-0-{UUID}.avro",
        f"metadata/{UUID}-m1.avro",
    )
    for path in (old, list_of_state, later):
        folder.put(path)
        folder.clock.advance_ms(1)
    rows = ErasedRows(table="kafka.t", verified_ms=verified_ms, job_id=4, states={"kafka.t": 11})
    table: Any = SimpleNamespace(name="kafka.t", paths_since=lambda *_: {list_of_state})
    assert delete_replaced(folder.store, table, rows) == 1
    assert folder.left() == sorted([list_of_state, later])
