"""The port of schema registries, and the memory of ids that every adapter needs."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Protocol

import msgspec

from siltstone.model.limits import MIB
from siltstone.value_formats.failures import SchemasNeeded
from siltstone.value_formats.value_format import Schema

SCHEMA_CACHE_BYTES_MAX = 32 * MIB
"""Some thousand schemas; a topic has a handful."""


class Registry(Protocol):
    """Gives schemas by their ids, and the newest schema of a subject."""

    @property
    def url(self) -> str:
        """Where another process opens the same registry; empty if it cannot."""
        ...

    def schema(self, schema_id: int) -> Schema:
        """Raises SchemaUnknown, SchemasNeeded, RegistryNotReachable, SchemaMalformed."""
        ...

    def latest(self, subject: str) -> tuple[int, Schema]:
        """Returns the newest schema of a subject and its id. Raises SchemaUnknown, RegistryNotReachable,
        SchemaMalformed."""
        ...


class HeldSchemas(msgspec.Struct, frozen=True):
    """Schemas that a driver has fetched for its tasks. A task that needs another id raises SchemasNeeded."""

    by_id: dict[int, Schema]

    @property
    def url(self) -> str:
        return ""

    def schema(self, schema_id: int) -> Schema:
        found = self.by_id.get(schema_id)
        if found is None:
            raise SchemasNeeded([schema_id])
        return found

    def latest(self, subject: str) -> tuple[int, Schema]:
        raise SchemasNeeded([])


class SchemaCache:
    """Schemas by id, at most ``bytes_max`` of them; the one that was not asked for the longest is dropped first."""

    def __init__(self, bytes_max: int = SCHEMA_CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held: OrderedDict[int, Schema] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def of(self, schema_id: int, ask: Callable[[], Schema]) -> Schema:
        """Returns the schema of the id, which ``ask`` gives if it is not held. Raises what ``ask`` raises."""
        with self._lock:
            if (held := self._held.get(schema_id)) is not None:
                self._held.move_to_end(schema_id)
                return held
        schema = ask()
        with self._lock:
            if schema_id not in self._held:
                self._held[schema_id] = schema
                self._bytes += schema.size_bytes
            while self._bytes > self._bytes_max and len(self._held) > 1:
                self._bytes -= self._held.popitem(last=False)[1].size_bytes
        return schema
