"""Schemas in memory: those that a driver holds, and the bounded cache of every registry."""

import pytest

from siltstone.value_formats.failures import SchemasNeeded
from siltstone.value_formats.schemas.port import HeldSchemas, SchemaCache
from siltstone.value_formats.value_format import FormatKind, Schema


def test_a_task_knows_what_its_driver_gave_it() -> None:
    held = HeldSchemas({1: Schema(FormatKind.AVRO, '"int"')})
    assert held.schema(1).text == '"int"'
    with pytest.raises(SchemasNeeded) as needed:
        held.schema(2)
    assert needed.value.names == (2,)
    with pytest.raises(SchemasNeeded):
        held.latest("flights-value")


def test_the_cache_drops_what_was_not_asked_for_the_longest() -> None:
    cache = SchemaCache(bytes_max=100)
    asked: list[int] = []

    def ask(schema_id: int) -> Schema:
        def answer() -> Schema:
            asked.append(schema_id)
            return Schema(FormatKind.AVRO, "x" * 40)

        return cache.of(schema_id, answer)

    for schema_id in (1, 2, 1, 3, 1, 2):
        ask(schema_id)
    assert asked == [1, 2, 3, 2]
    assert cache.size_bytes == 80


def test_a_schema_larger_than_the_cache_is_held_alone() -> None:
    cache, asked = SchemaCache(bytes_max=10), []

    def answer() -> Schema:
        asked.append(1)
        return Schema(FormatKind.AVRO, "x" * 11)

    for _ in range(3):
        assert cache.of(1, answer).size_bytes == 11
    assert (len(asked), cache.size_bytes) == (1, 11)
    cache.of(2, lambda: Schema(FormatKind.AVRO, "y" * 10))
    assert cache.size_bytes == 10


def test_as_many_bytes_as_the_cache_may_have_are_kept() -> None:
    cache = SchemaCache(bytes_max=4)
    for schema_id in (1, 2):
        cache.of(schema_id, lambda: Schema(FormatKind.AVRO, "xx"))
    assert cache.size_bytes == 4


def test_a_schema_that_cannot_be_had_is_asked_for_again() -> None:
    cache = SchemaCache()

    def nobody() -> Schema:
        raise SchemasNeeded([1])

    with pytest.raises(SchemasNeeded):
        cache.of(1, nobody)
    assert cache.of(1, lambda: Schema(FormatKind.AVRO, "x", ("yy",))).text == "x"
    assert cache.size_bytes == 3, "what a schema refers to counts"
