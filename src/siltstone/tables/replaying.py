"""Tries dead letters again, in a task: reads them from their table, and lets a function of the user mend their values.

The function gets one ``DeadLetter`` and returns the mended value. It may run more than once for a dead letter, also on
another machine, so it should return the same for the same. Its module travels as source text: what it imports has to be
installed where tasks run. A dead letter for which it raises, or returns None, stays one, with its value as it was.
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from hashlib import blake2b
from importlib import import_module
from types import ModuleType
from typing import Any

import msgspec
import pyarrow as pa

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import MIB
from siltstone.object_store.port import ObjectStore
from siltstone.record_columns.row_columns import (
    ALL_COLUMNS,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOPIC,
    VALUE,
)
from siltstone.tables.layout import REASON
from siltstone.tables.reading import RowFile
from siltstone.tables.task_input import DeadLetterUnit, Mending, ReasonCount
from siltstone.value_formats.decoding import reason_of

REASONS_MAX = 100
"""A task counts so many reasons one by one, and all others together: reasons may have parts of the values."""

OTHER_REASONS = "other reasons"
USERS_FAULTS = (Exception, SystemExit)
"""Whatever the module and the function of a user raise; a script that ends its process ends no task."""

SOURCE_BYTES_MAX = 1 * MIB
"""The source of a module travels in the input of each task."""


class MendingRefused(InvalidRequest):
    """The function that is to mend values cannot be used. The text says why."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A record that could not be decoded. ``timestamp`` is in UTC; ``reason`` says why it could not."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: datetime
    headers: tuple[tuple[str, bytes | None], ...]
    reason: str


def mending_of(name: str) -> Mending:
    """Returns the function that is named MODULE:FUNCTION, to be sent to tasks. Raises MendingRefused."""
    module_name, separator, function = name.partition(":")
    if not separator or not function.isidentifier():
        raise MendingRefused(f"{name} names no function: write MODULE:FUNCTION, such as mend:fixed")
    try:
        module = import_module(module_name)
        source = inspect.getsource(module)
    except USERS_FAULTS as cause:
        raise MendingRefused(f"the module {module_name} cannot be read: {reason_of(cause)}") from cause
    if len(source.encode()) > SOURCE_BYTES_MAX:
        raise MendingRefused(
            f"the module {module_name} is larger than 1 MiB: put the function into a file of its own"
        )
    mending = Mending(source, module_name, function)
    function_of(mending)
    return mending


def function_of(mending: Mending) -> Callable[[DeadLetter], Any]:
    """Returns the function, from the source of its module. Raises MendingRefused."""
    digest = blake2b(mending.source.encode(), digest_size=8).hexdigest()
    module = ModuleType(f"{mending.module}_{digest}")
    sys.modules[module.__name__] = module  # where dataclasses look for the module of a class
    try:
        exec(compile(mending.source, f"{mending.module}.py", "exec"), module.__dict__)  # noqa: S102  the user's own
    except USERS_FAULTS as cause:
        raise MendingRefused(f"the module {mending.module} cannot be run: {reason_of(cause)}") from cause
    found = getattr(module, mending.function, None)
    if not callable(found):
        raise MendingRefused(f"the module {mending.module} has no function {mending.function}")
    return found  # type: ignore[no-any-return]


class Replaying:
    """The dead letters of one unit."""

    def __init__(self, unit: bytes, store: ObjectStore, folder: str) -> None:
        self._unit = msgspec.msgpack.decode(unit, type=DeadLetterUnit)
        self._store = store
        self._folder = folder
        self._mend = None if self._unit.mending is None else function_of(self._unit.mending)
        self.counts: dict[str, ReasonCount] = {}

    @property
    def is_dry(self) -> bool:
        """Whether nothing is to be written."""
        return self._unit.is_dry

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Yields dead letters as pyarrow.RecordBatches, and beside each batch the ones that are not tried again: their
        table has no time of theirs, or a newer record of their key counts."""
        for each in self._unit.files:
            with RowFile(self._store, self._folder, each) as file:
                for rows in file.batches():
                    chosen = rows.select([*ALL_COLUMNS, REASON])
                    is_tried = pa.compute.and_(chosen.column(TIMESTAMP).is_valid(), self._may_move(chosen))
                    keep = chosen.filter(pa.compute.invert(is_tried))
                    if keep.num_rows:
                        record = {name: keep.column(name) for name in keep.schema.names}
                        self.count(record, dict(enumerate(map(self._why_kept, *_reasons_at(record)))))
                    yield chosen.filter(is_tried), keep

    def _may_move(self, letters: Any) -> Any:
        if not self._unit.staying:
            return pa.array([True] * letters.num_rows, pa.bool_())
        places = zip(letters.column(PARTITION).to_pylist(), letters.column(OFFSET).to_pylist(), strict=True)
        staying = self._unit.staying
        return pa.array([offset not in staying.get(number, {}) for number, offset in places], pa.bool_())

    def _why_kept(self, partition: int, offset: int, reason: str) -> str:
        return self._unit.staying.get(partition, {}).get(offset) or reason

    def mended(self, record: Mapping[str, Any]) -> tuple[Any, dict[int, str]]:
        """Returns the values to decode, and why rows could not be mended."""
        values = record[VALUE]
        if self._mend is None:
            return values, {}
        found: list[bytes | None] = []
        failed: dict[int, str] = {}
        for row, each in enumerate(dead_letters_of(record)):
            try:
                value = self._mend(each)
                if not isinstance(value, str | bytes):
                    raise TypeError(f"it returned {type(value).__name__}, and bytes or text are wanted")
                found.append(value.encode() if isinstance(value, str) else value)
            except USERS_FAULTS as cause:
                failed[row] = f"the function: {type(cause).__name__}: {reason_of(cause)}"
                found.append(None)
        return pa.array(found, pa.binary()), failed

    def count(self, record: Mapping[str, Any], bad: Mapping[int, str]) -> None:
        """Counts the dead letters of a batch by the reasons that they had; ``bad`` has new reasons by row."""
        for row, reason in enumerate(record[REASON].to_pylist()):
            name = reason if reason in self.counts or len(self.counts) < REASONS_MAX else OTHER_REASONS
            before = self.counts.get(name, ReasonCount())
            fit, unfit = before.fit + (row not in bad), before.unfit + (row in bad)
            self.counts[name] = ReasonCount(fit, unfit, before.example or bad.get(row, ""))


def _reasons_at(record: Mapping[str, Any]) -> tuple[list[Any], ...]:
    return tuple(record[name].to_pylist() for name in (PARTITION, OFFSET, REASON))


def dead_letters_of(record: Mapping[str, Any]) -> Iterator[DeadLetter]:
    """Yields the rows of a batch, whose columns are given by name."""
    names = (KEY, VALUE, TOPIC, PARTITION, OFFSET, TIMESTAMP, HEADERS, REASON)
    for key, value, topic, partition, offset, time, headers, reason in zip(
        *(record[name].to_pylist() for name in names), strict=True
    ):
        yield DeadLetter(
            key=key,
            value=value,
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp=time,
            headers=tuple((each["key"], each["value"]) for each in headers or ()),
            reason=reason or "",
        )
