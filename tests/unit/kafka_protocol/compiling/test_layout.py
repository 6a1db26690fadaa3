"""What a description says of one version."""

# ruff: noqa: RUF012 -- msgspec makes a fresh list of an empty default

from typing import Annotated, ClassVar

import pytest

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.compiling.layout import (
    BOOLEAN,
    ArrayOf,
    Blob,
    Field,
    FieldGroup,
    TaggedField,
    Text,
    WireType,
    default_of,
    layout_of,
    smallest_bytes,
)
from siltstone.kafka_protocol.notation import (
    NO_UUID,
    Bytes,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    NullableSince,
    Number,
    RecordPieces,
    Records,
    Structure,
    Tag,
    Uuid,
    Versions,
)
from support.values.left_out import numbers_left_out


class Inner(Structure, frozen=True, kw_only=True):
    number: Int16 = 0
    later: Annotated[Int64, Versions(3)] = 0


class Everything(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.METADATA
    versions: ClassVar[tuple[int, int]] = (0, 5)
    flexible_since: ClassVar[int | None] = 4

    always: Int8 = -1
    since: Annotated[Int32, Versions(1)] = 0
    between: Annotated[bool, Versions(1, 2)] = False
    text: str = ""
    nullable: str | None = None
    nullable_later: Annotated[str | None, NullableSince(2)] = ""
    both: Annotated[list[Inner] | None, Versions(2, 4), NullableSince(3)] = []
    numbers: list[Int32] = []
    ids: list[Uuid] = []
    texts: list[str] = []
    blob: Bytes = b""
    records: Records | None = None
    pieces: RecordPieces = []
    inner: Inner = Inner()
    inner_or_null: Inner | None = None
    second: Annotated[list[Inner], Versions(5), Tag(1)] = []
    first: Annotated[Uuid, Versions(4), Tag(0)] = NO_UUID


def fields(version: int) -> dict[str, Field]:
    return {field.name: field for field in group(version).fields}


def group(version: int) -> FieldGroup:
    return layout_of(Everything, version, flexible=version >= 4).group


def test_the_order_is_that_of_the_description_and_constants_are_no_fields() -> None:
    assert [*fields(1)] == [
        "always", "since", "between", "text", "nullable", "nullable_later", "numbers", "ids", "texts",
        "blob", "records", "pieces", "inner", "inner_or_null",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "versions"),
    [("always", {0, 1, 2, 3, 4, 5}), ("since", {1, 2, 3, 4, 5}), ("between", {1, 2}), ("both", {2, 3, 4})],
)
def test_fields_stand_in_their_versions(name: str, versions: set[int]) -> None:
    assert {version for version in range(6) if name in fields(version)} == versions


@pytest.mark.parametrize(
    ("name", "versions"),
    [
        ("text", set()),
        ("nullable", {0, 1, 2, 3, 4, 5}),
        ("nullable_later", {2, 3, 4, 5}),
        ("both", {3, 4}),
        ("records", {0, 1, 2, 3, 4, 5}),
        ("inner", set()),
        ("inner_or_null", {0, 1, 2, 3, 4, 5}),
    ],
)
def test_fields_are_nullable_in_their_versions(name: str, versions: set[int]) -> None:
    assert {
        version for version in range(6) if name in fields(version) and fields(version)[name].nullable
    } == versions


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("always", Number("b", 1)),
        ("since", Number("i", 4)),
        ("between", BOOLEAN),
        ("text", Text()),
        ("nullable", Text()),
        ("numbers", ArrayOf(Number("i", 4))),
        ("ids", ArrayOf(Number("16s", 16))),
        ("texts", ArrayOf(Text())),
        ("blob", Blob()),
        ("records", Blob()),
        ("pieces", Blob(gathered=True)),
    ],
)
def test_types(name: str, wire: WireType) -> None:
    assert fields(2)[name].type == wire


def test_structures_are_those_of_the_message_s_version() -> None:
    number, later = Field("number", Number("h", 2), False), Field("later", Number("q", 8), False)
    assert fields(2)["both"].type == ArrayOf(FieldGroup(Inner, (number,), ()))
    assert fields(3)["both"].type == ArrayOf(FieldGroup(Inner, (number, later), ()))
    assert fields(2)["inner"].type == fields(2)["inner_or_null"].type == FieldGroup(Inner, (number,), ())


def test_tagged_fields_are_apart_and_in_order() -> None:
    assert group(3).tagged == ()
    first = TaggedField(0, Field("first", Number("16s", 16), False))
    assert group(4).tagged == (first,)
    assert [(tagged.tag, tagged.field.name) for tagged in group(5).tagged] == [(0, "first"), (1, "second")]


def test_defaults() -> None:
    assert default_of(group(1), fields(1)["always"]) == -1
    assert default_of(group(1), fields(1)["inner"]) == Inner()
    (first,) = group(4).tagged
    assert first.field.type == Number("16s", len(default_of(group(4), first.field)))


@pytest.mark.parametrize(
    ("wire", "legacy", "flexible"),
    [
        (Number("q", 8), 8, 8),
        (Text(), 2, 1),
        (Blob(), 4, 1),
        (ArrayOf(Text()), 4, 1),
        (FieldGroup(Inner, (Field("a", Text(), True), Field("b", Number("i", 4), False)), ()), 6, 6),
        (
            FieldGroup(
                Inner, (Field("a", FieldGroup(Inner, (Field("b", Number("q", 8), False),), ()), True),), ()
            ),
            1,
            2,
        ),
    ],
)
def test_smallest_bytes(wire: WireType, legacy: int, flexible: int) -> None:
    assert smallest_bytes(wire, flexible=False) == legacy
    assert smallest_bytes(wire, flexible=True) == flexible


def test_what_is_no_type_of_the_notation() -> None:
    class Wrong(Structure, frozen=True, kw_only=True):
        number: float = 0.0

    with pytest.raises(AssertionError, match="no type of the notation"):
        layout_of(Wrong, 0, flexible=False)


def test_what_is_left_out() -> None:
    assert numbers_left_out(Blob) == {"gathered": False}
