"""Draws sequences of appends, exports, compactions, erasures by key and passing days, all from one seed, and compares
the table with a plain model after each step: the list of the records that were appended.

    append ─ export ─ stream object compaction ─ a day later ─ an erasure is asked ─ an erasure is carried out ─ …

While an erasure is under way, rows of its keys may be in the table or not, and do not count. At the end all subjects
are erased, the grace period passes, and no byte of their names is in any file of the tables or in any object.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import msgspec
import pyarrow.parquet as pq

from siltstone.carrying.pipeline.kind import Budget, Kind, Outcome, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.maintenance.stream_object_compaction.kind import StreamObjectCompaction
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import RemoveKey
from siltstone.model.limits import HOUR_MS
from siltstone.offline.erasures import erased_rows, is_table_pending, keys_of, put_erasure
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.scanning import reading
from siltstone.tables.kind import TableErasure
from support.maintenance.erased_world import ErasedWorld
from support.maintenance.opened_stores import stores_opened
from support.maintenance.stream_object_world import SMALL
from support.maintenance.table_world import TableWorld

DAY_MS = 24 * HOUR_MS
FORMATS, MODES = ("parquet", "delta", "iceberg"), ("append", "upsert", "scd2")
PARTITIONS = 2
SUBJECT = "subject-%02d-of-the-test"
SUBJECTS, OTHERS = 6, 4
NAME_OF_SUBJECTS = b"subject-"
"""Statistics of Iceberg cut texts to 16 characters; no other name begins like this."""
ROUNDS_MAX = 20

Place = tuple[int, int]


class ErasedTableWorld(TableWorld, ErasedWorld):
    """A world whose topics are exported, and erased by key. Its clock begins an hour after the folder was made: the
    files of a table have the times of the disk, and those from before an erasure have to be older than its end."""

    def __init__(self, folder: Path, table_format: str) -> None:
        super().__init__(folder, table_format)
        self.clock.advance_ms(round(folder.stat().st_mtime * 1000) + HOUR_MS - self.clock.now_ms())

    def do(self, kind: Kind) -> RunReport:
        watch = Watch(kind.name, self.clock)
        return run(self.context, kind, InProcessRunner, Scope(is_forced=True), Budget(), watch)


@contextmanager
def erased_table_world(folder: Path, table_format: str) -> Iterator[ErasedTableWorld]:
    world = ErasedTableWorld(folder, table_format)
    reading.INDEXES = reading.Indexes()  # objects of another world have the same names
    with stores_opened(world.store):
        yield world


class Appended(msgspec.Struct, frozen=True):
    """One record. ``n`` is what its value says: None for a tombstone; ``is_bad``: the value is no JSON object."""

    partition: int
    offset: int
    time_ms: int
    key: str
    n: int | None
    is_bad: bool


class ErasedSequence:
    """What a seed draws. ``said`` has the steps that were done, ``counts`` how many of a kind."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.table_format = self.rng.choice(FORMATS)
        self.mode = "append" if self.table_format == "parquet" else self.rng.choice(MODES)
        self.columns = self.rng.choice(["infer", "n long, who string"])
        self.said: list[str] = []
        self.counts: Counter[str] = Counter()
        self.records: list[Appended] = []
        self.open: dict[str, tuple[str, ...]] = {}
        self.numbers = 0

    def play(self, folder: Path, steps: int) -> None:
        with erased_table_world(folder, self.table_format) as self.world:
            self.streams = self._topic()
            self.append()
            self.export()
            deeds = [self.append, self.append, self.export, self.export_a_part, self.compact, self.ask, self.erase,
                     self.next_day, self.forget]  # fmt: skip
            for _ in range(steps):
                step = self.rng.choice(deeds)
                self.said.append(step.__name__)
                step()
                self.counts["steps"] += 1
                self.check()
            self.end()

    def _topic(self) -> list[int]:
        kind = {"upsert": {"mode": "upsert", "buckets": "2"}, "append": {}}
        given = kind.get(self.mode, {**kind["upsert"], "history": "scd2"})
        return self.world.kept(
            partitions=PARTITIONS, value="json", columns=self.columns, key="string", **given
        )

    # -- steps -----------------------------------------------------------------------------------------------------

    def append(self) -> None:
        self.world.clock.advance_ms(1_000)
        partition = self.rng.randrange(PARTITIONS)
        offset = self.world.stream(self.streams[partition]).end_offset
        batches = [[self._record(partition) for _ in range(self.rng.randint(1, 9))] for _ in range(2)]
        for at, record in enumerate(record for batch in batches for record in batch):
            self.records.append(msgspec.structs.replace(record, offset=offset + at))
        self.world.append_pairs(
            self.streams[partition], *([_pair(each) for each in batch] for batch in batches),
            in_set=self.rng.random() < 0.5, codec=self.rng.choice([Codec.NONE, Codec.LZ4]),
        )  # fmt: skip

    def _record(self, partition: int) -> Appended:
        number = self.rng.randrange(SUBJECTS + OTHERS)
        key = SUBJECT % number if number < SUBJECTS else f"another-{number}"
        self.numbers += 1
        drawn = self.rng.random()
        n = None if drawn < 0.15 else self.numbers
        return Appended(partition, 0, self.world.clock.now_ms(), key, n, is_bad=0.15 <= drawn < 0.2)

    def export(self) -> None:
        for _ in range(ROUNDS_MAX):
            if not self._exported(self.rng.choice([400, 2_000, 10**6])):
                break
        assert self._ends() == {
            number: end
            for number, each in enumerate(self.streams)
            if (end := self.world.stream(each).end_offset)
        }
        self.counts["exports"] += 1

    def export_a_part(self) -> None:
        self._exported(400)

    def _exported(self, round_bytes: int) -> bool:
        """Exports one round, and carries out what erasures need; returns whether there was something to do."""
        before = self._ends()
        for unit in self.world.export(round_bytes=round_bytes).units:
            assert unit.outcome is Outcome.DONE, unit.text
        self._close()
        return self._ends() != before

    def compact(self) -> None:
        kind = self.rng.choice(
            [StreamObjectCompaction(SMALL), StreamSetObjectCompaction(CompactionSettings())]
        )
        self.world.do(kind)

    def ask(self) -> None:
        """Asks for an erasure, whose rounds come later, after whatever is done until then."""
        keys = self.rng.sample([SUBJECT % number for number in range(SUBJECTS)], self.rng.randint(1, 2))
        self._ask(keys)

    def _ask(self, keys: Sequence[str]) -> None:
        erasure_id = f"{len(self.said):012x}"
        if erasure_id in self.open or not self.records:
            return
        erasure = self.world.ask(*keys, erasure_id=erasure_id)
        held = msgspec.structs.replace(erasure, has_table=True)
        self.world.metadata.execute(put_erasure(self.world.image, held))
        self.open[erasure_id] = tuple(keys)
        bounds = erasure.bounds
        self.records = [
            each for each in self.records if each.key not in keys or each.offset >= bounds[each.partition]
        ]

    def erase(self) -> None:
        """Carries out the erasures that are open."""
        for _ in range(ROUNDS_MAX):
            if not any(self.world.erasure(each).is_pending for each in self.open):
                break
            self.world.erase()
            self.world.do(StreamSetObjectCompaction(CompactionSettings()))
        for unit in self.world.do(TableErasure(self.world.settings)).units:
            assert unit.outcome is Outcome.DONE, unit.text
        self._close()
        assert not self.open, self.open

    def _close(self) -> None:
        image = self.world.image
        for erasure_id in [*self.open]:
            erasure = self.world.erasure(erasure_id)
            if not erasure.is_pending and not is_table_pending(image, erasure):
                del self.open[erasure_id]
                self.counts["erasures"] += 1

    def next_day(self) -> None:
        """The first export of the day drops older states of the table, and deletes files."""
        self.world.clock.advance_ms(self.rng.choice([HOUR_MS, 2 * DAY_MS]))

    def forget(self) -> None:
        """Ends a request whose rows and files are gone, as a person may."""
        image = self.world.image
        for each in [*image.keys]:
            erasure_id = each.removeprefix("erasure/")
            rows = erased_rows(image, erasure_id)
            if rows is not None and rows.deleted_ms:
                for key in [*keys_of(image, erasure_id)]:
                    self.world.metadata.execute(RemoveKey(key))

    # -- the model -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Compares the rows of the table and its dead letters with what the records say that were exported."""
        under_way = {key for keys in self.open.values() for key in keys}
        ends = self._ends()
        there = [each for each in self.records if each.offset < ends.get(each.partition, 0)]
        good = [each for each in there if not each.is_bad]
        expected = {"append": _all_rows, "upsert": _newest, "scd2": _versions}[self.mode](good)
        assert self._rows(under_way) == sorted(row for row in expected if row[2] not in under_way)
        bad = sorted(
            (each.partition, each.offset) for each in there if each.is_bad and each.key not in under_way
        )
        assert self._dead(under_way) == bad
        self.counts["rows"] += len(expected)

    def _ends(self) -> dict[int, int]:
        with self.world.tables() as opened:
            table = opened.load("kafka.t")
        return {} if table is None else {number: end for number, end in table.ledger.offsets.items() if end}

    def _rows(self, but: set[str]) -> list[tuple[Any, ...]]:
        found = []
        for row in self.world.frame().to_dicts():
            kafka = row["kafka"]
            if kafka["key"] in but:
                continue
            made = (kafka["partition"], kafka["offset"], kafka["key"], row.get("n"))
            if self.mode == "scd2":
                valid_to = row["_valid_to"]
                made += (0 if valid_to is None else round(valid_to.timestamp() * 1000),)
            assert row.get("who") in (None, kafka["key"])
            found.append(tuple(-1 if each is None else each for each in made))
        return sorted(found)

    def _dead(self, but: set[str]) -> list[Place]:
        with self.world.tables() as opened:
            if opened.load("kafka.t__errors") is None:
                return []
        rows = self.world.frame("kafka.t__errors").to_dicts()
        return sorted((row["partition"], row["offset"]) for row in rows if _text(row["key"]) not in but)

    # -- the end ---------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Erases all subjects, lets readers have the grace period, and looks for their names everywhere."""
        self.export()
        self.erase()
        self.said.append("the end")
        self._ask([SUBJECT % number for number in range(SUBJECTS)])
        self.erase()
        self.check()
        for _ in range(2):
            self.world.clock.advance_ms(2 * DAY_MS)
            for unit in self.world.do(TableErasure(self.world.settings)).units:
                assert unit.outcome is Outcome.DONE, unit.text
            self.world.do(StreamObjectCompaction(SMALL))
            sweep(self.world.context)
        self.check()
        held = self.holders_of_names()
        assert not held, held
        self.world.assert_sound()
        self.append()
        self.export()
        self.check()

    def holders_of_names(self) -> list[str]:
        """Returns the files of the tables, of any state, and the objects that have a name of a subject in them."""
        found = [
            str(path)
            for path in sorted(self.world.folder.rglob("*"))
            if path.is_file() and _names_subject(path)
        ]
        found += [
            each.key
            for each in self.world.store.list()
            if NAME_OF_SUBJECTS in self.world.store.get_range(each.key, 0, each.size_bytes)
        ]
        for stream in self.streams:  # batches may be compressed
            found += [
                f"record {at} of {key}" for at, key, _ in self.world.records(stream) if _is_subject(key)
            ]
        return found


def _pair(record: Appended) -> tuple[str, str | None]:
    if record.n is None:
        return record.key, None
    text = json.dumps({"n": record.n, "who": record.key})
    return record.key, text[1:] if record.is_bad else text


def _all_rows(records: Sequence[Appended]) -> list[tuple[Any, ...]]:
    return [_row(each) for each in records]


def _newest(records: Sequence[Appended]) -> list[tuple[Any, ...]]:
    newest = {(each.partition, each.key): each for each in records}
    return [_row(each) for each in newest.values() if each.n is not None]


def _versions(records: Sequence[Appended]) -> list[tuple[Any, ...]]:
    later: dict[tuple[int, str], int] = {}
    found = []
    for each in reversed(records):
        if each.n is not None:
            found.append((*_row(each), later.get((each.partition, each.key), 0)))
        later[each.partition, each.key] = each.time_ms
    return found


def _row(record: Appended) -> tuple[Any, ...]:
    return (record.partition, record.offset, record.key, -1 if record.n is None else record.n)


def _is_subject(key: str | None) -> bool:
    return key is not None and key.encode().startswith(NAME_OF_SUBJECTS)


def _text(key: Any) -> Any:
    return key.decode() if isinstance(key, bytes) else key


def _names_subject(path: Path) -> bool:
    """Looks at the bytes, and at what they say where they are compressed."""
    if NAME_OF_SUBJECTS in path.read_bytes():
        return True
    if path.suffix == ".parquet":
        return NAME_OF_SUBJECTS.decode() in str(pq.read_table(path, partitioning=None).to_pylist())
    if path.suffix == ".avro":
        with path.open("rb") as file:
            return NAME_OF_SUBJECTS.decode() in str(list(fastavro.reader(file)))
    return False
