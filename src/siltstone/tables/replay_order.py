"""Which dead letters of an upsert table may move into it: only the newest record of a key does.

A table with the newest record of each key has no row of an older record, and no trace of a record that removed a row.
So the order is taken from the topic. A dead letter *stays* if a newer record of its partition and key is in the topic,
whatever that record does; if its own record is not in the topic any more, because then a newer one may have gone with
it, too; or if it has no key. What moves has a higher offset than all that the table knows of its key, as the records
of an export have, so the same merge takes it; it begins the newest version of its key where versions are kept. Where a
change event may remove all rows, which has no key, a dead letter also stays if a record without a key came later.

The driver reads the keys of the dead letters. Then it reads the keys of the topic's records from the oldest dead letter
on. It keeps in memory only the keys of the dead letters.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.model.limits import MIB
from siltstone.object_store.port import ObjectStore
from siltstone.offline.context import MaintenanceContext
from siltstone.record_columns.row_columns import KEY, OFFSET, PARTITION
from siltstone.scanning.request import Bound, BoundKind, Bounds, ScanRequest, Tail
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.scan import plan_scan
from siltstone.scanning.transactions import CommittedEnds
from siltstone.tables.decoding.keys import key_decoder
from siltstone.tables.failures import TableOfAnotherTopic
from siltstone.tables.formats.port import TableFile
from siltstone.tables.keys import key_bytes
from siltstone.tables.ledger import Ledger
from siltstone.tables.planning import TopicExport
from siltstone.tables.reading import RowFile
from siltstone.tables.task_input import ValueSchemas
from siltstone.topic_configs.table_export import TableConfig

REPLAY_BYTES_OF_KEYS = 64 * MIB
"""The most bytes of dead letters that one replay of an upsert table moves: the driver has their keys in memory."""


class LettersOfPartition:
    """The dead letters of one partition, and what the topic has of their keys."""

    def __init__(self, *, may_truncate: bool = False) -> None:
        """``may_truncate``: a record without a key may remove all rows before it."""
        self._may_truncate = may_truncate
        self._last_without_key = -1
        self._letters: dict[int, bytes | None] = {}
        self._values: Any = None
        self._newest: Any = None
        self._present: set[int] = set()

    def add(self, offset: int, key: bytes | None) -> None:
        """Adds a dead letter. ``key`` is None for a record without a key, or with one that cannot be decoded."""
        self._letters[offset] = key

    @property
    def first_offset(self) -> int:
        return min(self._letters)

    def see(self, offsets: Any, keys: Any, are_without_key: Any) -> None:
        """Sees records of the topic: pyarrow Arrays. ``keys`` are null for a record without a key, or with one that
        cannot be decoded; ``are_without_key`` says which have none."""
        if self._values is None:
            self._values = pa.array(
                sorted({each for each in self._letters.values() if each is not None}), pa.binary()
            )
            self._newest = np.full(len(self._values), -1, dtype=np.int64)
        if self._may_truncate and (last := pc.max(offsets.filter(are_without_key)).as_py()) is not None:
            self._last_without_key = max(self._last_without_key, last)
        at = pc.index_in(keys, value_set=self._values, skip_nulls=True)
        is_theirs = at.is_valid()
        found = offsets.filter(is_theirs).to_numpy()
        np.maximum.at(self._newest, at.filter(is_theirs).to_numpy(), found)
        self._present.update(each for each in found.tolist() if each in self._letters)

    def stay(self) -> dict[int, str]:
        """Returns the offsets of the dead letters that stay, and why."""
        places = {} if self._values is None else {key: at for at, key in enumerate(self._values.to_pylist())}
        found = {}
        for offset, key in sorted(self._letters.items()):
            if key is None:
                found[offset] = "its record has no key that can be decoded"
            elif key in places and self._newest[places[key]] > offset:
                found[offset] = "a newer record of its key is in the topic"
            elif offset < self._last_without_key:
                found[offset] = "a record without a key came later, and may have removed all rows"
            elif offset not in self._present:
                found[offset] = (
                    "its record is not in the topic any more, so a newer one of its key may be gone, too"
                )
        return found


def letters_of(
    store: ObjectStore, folder: str, files: Iterable[TableFile], export: TopicExport
) -> dict[int, LettersOfPartition]:
    """Returns the dead letters in files of their table, by partition. Raises what the store raises."""
    found: dict[int, LettersOfPartition] = {}
    keys = KeyColumn(export.config)
    for each in files:
        with RowFile(store, folder, each) as file:
            for rows in file.batches([PARTITION, OFFSET, KEY]):
                places = (rows.column(PARTITION).to_pylist(), rows.column(OFFSET).to_pylist())
                for partition, offset, key in zip(
                    *places, keys.of(rows.column(KEY)).to_pylist(), strict=True
                ):
                    # Why the first: the topic may have more partitions since an event removed all rows.
                    may_truncate = export.has_truncates and partition == 0
                    of = found.setdefault(partition, LettersOfPartition(may_truncate=may_truncate))
                    of.add(offset, key)
    return found


class KeyColumn:
    """The keys of records as the bytes by which rows of the table are compared."""

    def __init__(self, config: TableConfig) -> None:
        self._decoder = key_decoder(config, ValueSchemas())

    def of(self, keys: Any) -> Any:
        """Returns a pyarrow.BinaryArray; null for a record without a key, or with one that cannot be decoded."""
        if self._decoder is None:
            return keys.cast(pa.binary())
        found = self._decoder.decode(keys)
        is_good = pa.array(found.are_good(len(keys)))
        return pc.if_else(is_good, key_bytes(found.columns[KEY]), pa.scalar(None, pa.binary()))


def staying(
    letters: Mapping[int, LettersOfPartition], batches: Iterable[Any], config: TableConfig
) -> dict[int, dict[int, str]]:
    """Returns the offsets of the dead letters that stay, by partition, and why. ``batches`` are the records of the
    topic from the first of them to the end of the ledger, each of one partition, with the columns partition, offset
    and key."""
    keys = KeyColumn(config)
    for batch in batches:
        if batch.num_rows:
            of = letters[batch.column(PARTITION)[0].as_py()]
            key = batch.column(KEY)
            of.see(batch.column(OFFSET), keys.of(key), key.is_null())
    return {partition: each.stay() for partition, each in letters.items()}


def letters_that_stay(
    context: MaintenanceContext,
    committed: CommittedEnds,
    export: TopicExport,
    ledger: Ledger,
    letters: Mapping[int, LettersOfPartition],
) -> dict[int, dict[int, str]]:
    """Returns the offsets of the dead letters that stay, by partition, and why. Raises TableOfAnotherTopic, and what a
    scan raises."""
    image, name = context.metadata.refresh(), export.topic.name
    there = image.topics[export.topic.topic_id].partitions
    starts: dict[int, int] = {}
    for number, each in letters.items():
        if number < len(there):
            first = max(each.first_offset, image.streams[there[number].data_stream_id].start_offset)
            if first < (ledger.offset(number) or 0):
                starts[number] = first
    if not starts:
        return staying(letters, (), export.config)
    ends = {number: ledger.offset(number) or 0 for number in starts}
    request = ScanRequest(
        assigned={name: tuple(starts)},
        start=_bounds(name, starts),
        end=_bounds(name, ends),
        columns=(PARTITION, OFFSET, KEY),
        tail=Tail.COMMITTED,
        fail_on_data_loss=False,
    )
    plan = plan_scan(context, request, committed)
    if any(each.of.topic.topic_id != export.topic.topic_id for each in plan.cuts):
        raise TableOfAnotherTopic(export.table, name)
    batches = (batch for unit in plan.units for batch in unit_rows(unit, context.clock, context.rng))
    return staying(letters, batches, export.config)


def _bounds(topic: str, offsets: Mapping[int, int]) -> Bounds:
    return Bounds(
        None, {(topic, number): Bound(BoundKind.OFFSET, offset) for number, offset in offsets.items()}
    )
