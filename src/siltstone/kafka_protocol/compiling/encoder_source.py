"""Writes the source text of the function that encodes one version of a message: straight-line code, one loop per
array.

Neighbouring fields of fixed size are packed together, as a *run*, with the length of the field that follows them. In
the text, ``out`` is the buffer being written and ``pieces`` the finished buffers before it; only a field whose
records are a list of buffers finishes ``out`` and begins a new one. Tagged fields are written in ascending order of
their tags, without those that have their default value.
"""

from struct import pack
from typing import Any

from siltstone.kafka_protocol.compiling.layout import (
    ArrayOf,
    Blob,
    Field,
    FieldGroup,
    Layout,
    TaggedField,
    Text,
    WireType,
    default_of,
)
from siltstone.kafka_protocol.compiling.primitives import check_uuid, varint
from siltstone.kafka_protocol.compiling.source import CodecSource
from siltstone.kafka_protocol.notation import Number


def encoder_source(layout: Layout) -> tuple[str, dict[str, Any]]:
    """Returns the text that defines ``encode(message)``, which returns a list of buffers, and the constants it refers
    to."""
    return _Encoder(layout).write()


class _Encoder:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.flexible = layout.flexible
        self.source = CodecSource(check_uuid=check_uuid, pack=pack, varint=varint)
        self.run: list[tuple[str, str]] = []

    def write(self) -> tuple[str, dict[str, Any]]:
        with self.source.block("def encode(message):"):
            self.source.line("pieces = []")
            self.source.line("out = bytearray()")
            self.group(self.layout.group, "message")
            self.flush()
            self.source.line("return [*pieces, out]")
        return self.source.text(), self.source.constants

    def flush(self) -> None:
        """Writes the line that packs the current run of fixed-size fields."""
        if [code for code, _ in self.run] == ["B"]:
            self.source.line(f"out.append({self.run[0][1]})")
        elif self.run:
            self.source.line(f"out += {self.packed(self.run)}")
        self.run.clear()

    def packed(self, run: list[tuple[str, str]]) -> str:
        pack_run = self.source.method_of_struct("".join(code for code, _ in run), "pack")
        return f"{pack_run}({', '.join(value for _, value in run)})"

    def group(self, group: FieldGroup, holder: str) -> None:
        for field in group.fields:
            self.value(field, f"{holder}.{field.name}")
        if self.flexible and group.tagged:
            self.tagged(group, holder)
        elif self.flexible:
            self.run.append(("B", "0"))

    def value(self, field: Field, value: str) -> None:
        self.of_type(field.type, value, field.nullable)

    def of_type(self, wire: WireType, value: str, nullable: bool) -> None:
        if isinstance(wire, Number):
            self.run.append((wire.code, f"check_uuid({value})" if wire.code == "16s" else value))
        elif isinstance(wire, FieldGroup):
            self.nested(wire, value, nullable)
        elif isinstance(wire, ArrayOf):
            self.array(wire.element, value, nullable)
        else:
            self.bytes_of(wire, value, nullable)

    def nested(self, group: FieldGroup, value: str, nullable: bool) -> None:
        nested = value
        if "." in value:
            nested = self.source.name("m")
            self.source.line(f"{nested} = {value}")
        if not nullable:
            self.group(group, nested)
            return
        self.flush()
        with self.source.block(f"if {nested} is None:"):
            self.source.line("out.append(255)")
        with self.source.block("else:"):
            self.run.append(("b", "1"))
            self.group(group, nested)
            self.flush()

    def bytes_of(self, wire: Text | Blob, value: str, nullable: bool) -> None:
        written = self.source.name("b")
        self.source.line(f"{written} = {value}")
        if isinstance(wire, Text):
            null_first = f"{written} if {written} is None else " if nullable else ""
            self.source.line(f"{written} = {null_first}{written}.encode()")
        gathered = isinstance(wire, Blob) and wire.gathered
        size = f"sum(map(len, {written}))" if gathered else f"len({written})"
        self.length(written, size, "h" if isinstance(wire, Text) else "i", nullable)
        with self.source.block(f"if {written}:"):
            if gathered:
                self.source.line(f"pieces += [out, *{written}]")
                self.source.line("out = bytearray()")
            else:
                self.source.line(f"out += {written}")

    def length(self, value: str, size: str, legacy_code: str, nullable: bool) -> None:
        """Writes the lines that write a length, −1 for null. A compact length is a varint of the length plus 1, which
        nearly always takes one byte."""
        length = self.source.name("n")
        null, more = (0, " + 1") if self.flexible else (-1, "")
        null_first = f"{null} if {value} is None else " if nullable else ""
        self.source.line(f"{length} = {null_first}{size}{more}")
        if self.flexible:
            self.compact(length)
        else:
            self.run.append((legacy_code, length))
            self.flush()

    def compact(self, length: str) -> None:
        before = list(self.run)
        with self.source.block(f"if {length} < 128:"):
            self.run.append(("B", length))
            self.flush()
        with self.source.block("else:"):
            self.source.line(
                "out += " + "".join(f"{self.packed(before)} + " for _ in before[:1]) + f"varint({length})"
            )

    def array(self, element: WireType, value: str, nullable: bool) -> None:
        elements = self.source.name("a")
        self.source.line(f"{elements} = {value}")
        self.length(elements, f"len({elements})", "i", nullable)
        all_of_them = f"{elements} or ()" if nullable else elements
        if isinstance(element, Number) and len(element.code) == 1:
            self.source.line(
                f"if {elements}: out += pack(f'>{{len({elements})}}{element.code}', *{elements})"
            )
            return
        each = self.source.name("e")
        with self.source.block(f"for {each} in {all_of_them}:"):
            self.of_type(element, each, nullable=False)
            self.flush()

    def tagged(self, group: FieldGroup, holder: str) -> None:
        """Writes the lines that encode the tagged fields without their default value, then write their number and
        them."""
        self.flush()
        pieces = self.source.name("t")
        self.source.line(f"{pieces} = []")
        for known in group.tagged:
            self.tagged_field(group, known, f"{holder}.{known.field.name}", pieces)
        self.source.line(f"out.append(len({pieces}) // 2)")
        with self.source.block(f"for piece in {pieces}:"):
            self.source.line("out += piece")

    def tagged_field(self, group: FieldGroup, known: TaggedField, value: str, pieces: str) -> None:
        default = self.source.constant("default", default_of(group, known.field))
        tagged, outer = self.source.name("v"), self.source.name("out")
        self.source.line(f"{tagged} = {value}")
        # The value is usually the default object itself, and ``is`` is cheaper than comparing values.
        with self.source.block(f"if {tagged} is not {default} and {tagged} != {default}:"):
            self.source.line(f"{outer} = out")
            self.source.line("out = bytearray()")
            self.of_type(known.field.type, tagged, known.field.nullable)
            self.flush()
            self.source.line(f"{pieces} += [varint({known.tag}) + varint(len(out)), out]")
            self.source.line(f"out = {outer}")
