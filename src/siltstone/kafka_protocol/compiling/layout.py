"""The layout of one version of a message, derived from its description.

A layout has no version numbers any more, only the fields of that version in their order, each with its wire type. Read
next: ``decoder_source``.
"""

from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec

from siltstone.kafka_protocol.notation import Gathered, NullableSince, Number, Structure, Tag, Versions

BOOLEAN = Number("?", 1)


class Text(msgspec.Struct, frozen=True):
    """A string: its length in bytes, then its UTF-8 bytes."""


class Blob(msgspec.Struct, frozen=True):
    """Bytes or record batches: their length, then themselves. If gathered, the value is a list of buffers."""

    gathered: bool = False


class ArrayOf(msgspec.Struct, frozen=True):
    """An array: the number of its elements, then the elements."""

    element: "WireType"


class FieldGroup(msgspec.Struct, frozen=True):
    """The fields of a message structure; in flexible versions its tagged fields follow them."""

    structure: type[Structure]
    fields: "tuple[Field, ...]"
    tagged: "tuple[TaggedField, ...]"


WireType: TypeAlias = Number | Text | Blob | ArrayOf | FieldGroup


class Field(msgspec.Struct, frozen=True):
    name: str
    type: WireType
    nullable: bool


class TaggedField(msgspec.Struct, frozen=True):
    tag: int
    field: Field


class Layout(msgspec.Struct, frozen=True):
    group: FieldGroup
    flexible: bool

    @property
    def title(self) -> str:
        return self.group.structure.__name__


def layout_of(structure: type[Structure], version: int, flexible: bool) -> Layout:
    return Layout(_group(structure, version), flexible)


def default_of(group: FieldGroup, field: Field) -> Any:
    return getattr(group.structure(), field.name)


def smallest_bytes(wire: WireType, flexible: bool, nullable: bool = False) -> int:
    """Returns the fewest bytes that a value of this type takes; the decoder derives from it how many elements can
    follow."""
    if isinstance(wire, Number):
        return wire.size_bytes
    if isinstance(wire, Text):
        return 1 if flexible else 2
    if not isinstance(wire, FieldGroup):
        return 1 if flexible else 4
    if nullable:
        return 1
    return int(flexible) + sum(smallest_bytes(field.type, flexible, field.nullable) for field in wire.fields)


def _group(structure: type[Structure], version: int) -> FieldGroup:
    fields: list[Field] = []
    tagged: list[TaggedField] = []
    for name, hint in get_type_hints(structure, include_extras=True).items():
        if get_origin(hint) is ClassVar:
            continue
        plain, notes = _apart(hint)
        if not _stands_in(notes, version):
            continue
        field = _field(name, plain, notes, version)
        tags = [note.number for note in notes if isinstance(note, Tag)]
        if tags:
            tagged.append(TaggedField(tags[0], field))
        else:
            fields.append(field)
    return FieldGroup(
        structure, tuple(fields), tuple(sorted(tagged, key=lambda tagged_field: tagged_field.tag))
    )


def _apart(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Splits a type hint into the plain hint and the notes of its ``Annotated``."""
    if get_origin(hint) is Annotated:
        return get_args(hint)[0], hint.__metadata__
    return hint, ()


def _stands_in(notes: tuple[Any, ...], version: int) -> bool:
    ranges = [note for note in notes if isinstance(note, Versions)]
    return all(note.since <= version and (note.until is None or version <= note.until) for note in ranges)


def _field(name: str, plain: Any, notes: tuple[Any, ...], version: int) -> Field:
    members = [plain]
    if get_origin(plain) in {Union, UnionType}:
        members = [member for member in get_args(plain) if member is not NoneType]
    nullable = members != [plain] and NoneType in get_args(plain)
    since = max((note.version for note in notes if isinstance(note, NullableSince)), default=0)
    return Field(name, _wire_type(members, notes, version), nullable and version >= since)


def _wire_type(members: list[Any], notes: tuple[Any, ...], version: int) -> WireType:
    if memoryview in members:
        return Blob(_is_gathered(notes))
    (plain,) = members
    plain, inner_notes = _apart(plain)
    if _is_gathered((*inner_notes, *notes)):
        return Blob(gathered=True)
    numbers = [note for note in (*inner_notes, *notes) if isinstance(note, Number)]
    if numbers or plain is bool:
        return numbers[0] if numbers else BOOLEAN
    if plain is str:
        return Text()
    if get_origin(plain) is list:
        return ArrayOf(_wire_type([get_args(plain)[0]], (), version))
    assert issubclass(plain, Structure), f"{plain} is no type of the notation"
    return _group(plain, version)


def _is_gathered(notes: tuple[Any, ...]) -> bool:
    return any(isinstance(note, Gathered) for note in notes)
