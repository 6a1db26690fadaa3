"""The ledger of a table: up to which offset of each partition the records are in it. Pure.

It is a part of the table's own metadata, so it cannot be ahead of the rows or behind them: a Parquet table has it in
each of its commit files, an Iceberg table in properties that are set together with the data files:

    siltstone.layout       "1", the version of all these
    siltstone.store-id     the store
    siltstone.topic-id     the topic; one that was created again under the name has another id
    siltstone.created      when the table was made, in ms since 1970
    siltstone.offsets      {"0": 1200, …}, the offset after the last exported one, by partition
    siltstone.commit       {"token": …, "snapshot": …}: the last export, and the snapshot that it made
    siltstone.gaps         [[partition, start, end], …]: offsets that retention removed before they were exported
    siltstone.time         when the last export was committed, in ms since 1970
    siltstone.mode         "upsert" if the table has the newest record of each key alone; otherwise it is not there
"""

from collections.abc import Mapping

import msgspec

from siltstone.tables.failures import LedgerLost
from siltstone.topic_configs.table_export import APPEND

LAYOUT = 1
PREFIX = "siltstone."
GAPS_MAX = 100
"""A ledger lists only the newest gaps, at most this many, because it is read and written in every round."""


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """The offsets [start, end) of a partition, which were removed before they were exported."""

    partition: int
    start_offset: int
    end_offset: int


class TableIdentity(msgspec.Struct, frozen=True):
    """The store and the topic whose records the table holds."""

    store_id: str
    topic_id: str


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """``token`` names the round that committed last, ``snapshot_id`` the snapshot that it added to an Iceberg table."""

    identity: TableIdentity
    created_ms: int = 0
    offsets: dict[int, int] = {}
    token: str = ""
    snapshot_id: int | None = None
    gaps: tuple[Gap, ...] = ()
    committed_ms: int = 0
    mode: str = APPEND

    def offset(self, partition: int) -> int | None:
        """Returns the first offset that was not exported; None if no record of the partition was exported."""
        return self.offsets.get(partition)

    def after(
        self, ends: Mapping[int, int], token: str, committed_ms: int, gaps: tuple[Gap, ...] = ()
    ) -> "Ledger":
        """Returns the ledger after a round up to ``ends``. No offset moves back."""
        for partition, end in ends.items():
            assert end >= self.offsets.get(partition, 0), f"partition {partition} would go back to {end}"
        return msgspec.structs.replace(
            self,
            offsets={**self.offsets, **ends},
            token=token,
            gaps=(*self.gaps, *gaps)[-GAPS_MAX:],
            committed_ms=committed_ms,
        )


class _Commit(msgspec.Struct):
    token: str
    snapshot: int | None = None


def properties_of(ledger: Ledger) -> dict[str, str]:
    """Returns the ledger as properties of a table."""
    mode = {} if ledger.mode == APPEND else {f"{PREFIX}mode": ledger.mode}
    return {
        **mode,
        f"{PREFIX}layout": str(LAYOUT),
        f"{PREFIX}store-id": ledger.identity.store_id,
        f"{PREFIX}topic-id": ledger.identity.topic_id,
        f"{PREFIX}created": str(ledger.created_ms),
        f"{PREFIX}offsets": _text({str(number): end for number, end in sorted(ledger.offsets.items())}),
        f"{PREFIX}commit": _text(_Commit(ledger.token, ledger.snapshot_id)),
        f"{PREFIX}gaps": _text(ledger.gaps),
        f"{PREFIX}time": str(ledger.committed_ms),
    }


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def ledger_of(table: str, properties: Mapping[str, str]) -> Ledger:
    """Returns the ledger that the properties hold. Raises LedgerLost."""

    def text(name: str) -> str:
        found = properties.get(f"{PREFIX}{name}")
        if found is None:
            raise LedgerLost(table, f"its property {PREFIX}{name} is missing")
        return found

    if text("layout") != str(LAYOUT):
        raise LedgerLost(table, f"its layout is {text('layout')}, and this program knows {LAYOUT}")
    try:
        commit = msgspec.json.decode(text("commit"), type=_Commit)
        return Ledger(
            identity=TableIdentity(text("store-id"), text("topic-id")),
            created_ms=int(text("created")),
            offsets=msgspec.json.decode(text("offsets"), type=dict[int, int]),
            token=commit.token,
            snapshot_id=commit.snapshot,
            gaps=msgspec.json.decode(text("gaps"), type=tuple[Gap, ...]),
            committed_ms=int(text("time")),
            mode=properties.get(f"{PREFIX}mode", APPEND),
        )
    except (msgspec.DecodeError, ValueError) as damage:
        raise LedgerLost(table, f"it cannot be read: {damage}") from damage
