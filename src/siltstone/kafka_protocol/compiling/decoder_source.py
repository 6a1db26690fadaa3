"""Writes the source text of the function that decodes one version of a message: straight-line code, one loop per
array.

Neighbouring fields of fixed size are unpacked together, as a *run*, with the length (or its first byte) of the field
that follows them. In the text, ``data`` is the body, ``p`` the current position, ``end`` the number of bytes, ``q``
the position where a string or array ends, and ``left`` how many more elements arrays may have, tagged fields counted.

Invariant: every length is compared with the remaining bytes before it is used. So no position passes ``end``, and no
list is made from a count that the remaining bytes cannot hold.
"""

from struct import calcsize, unpack_from
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
    smallest_bytes,
)
from siltstone.kafka_protocol.compiling.primitives import (
    TAGGED_FIELDS_MAX,
    out_of_bounds,
    rest_of_varint,
    skip_tagged,
    tagged_at,
    too_long_text,
    too_many_elements,
    too_many_tagged,
    wrong_tagged,
)
from siltstone.kafka_protocol.compiling.source import CodecSource
from siltstone.kafka_protocol.notation import TEXT_BYTES_MAX, Number
from siltstone.model.serving_limits import MESSAGE_ELEMENTS_MAX, REQUEST_ELEMENTS_MAX


def decoder_source(layout: Layout, in_place: bool) -> tuple[str, dict[str, Any]]:
    """Returns the text that defines ``decode(data)``, and the constants that it refers to. ``data`` is bytes, or a
    memoryview if ``in_place``."""
    return _Decoder(layout, in_place).write()


def elements_max(layout: Layout) -> int:
    """Returns how many array elements a body may have. The limit for requests is lower: any client can send one,
    whereas a response comes from a broker that was asked."""
    is_request = layout.title.endswith("Request")
    return REQUEST_ELEMENTS_MAX if is_request else MESSAGE_ELEMENTS_MAX


class _Decoder:
    def __init__(self, layout: Layout, in_place: bool) -> None:
        self.layout = layout
        self.in_place = in_place
        self.flexible = layout.flexible
        self.elements_max = elements_max(layout)
        self.source = CodecSource(
            out_of_bounds=out_of_bounds,
            rest_of_varint=rest_of_varint,
            skip_tagged=skip_tagged,
            tagged_at=tagged_at,
            too_long_text=too_long_text,
            too_many_elements=too_many_elements,
            too_many_tagged=too_many_tagged,
            unpack_from=unpack_from,
            wrong_tagged=wrong_tagged,
        )
        self.run: list[tuple[str, str]] = []

    def write(self) -> tuple[str, dict[str, Any]]:
        with self.source.block("def decode(data):"):
            self.source.line("end = len(data)")
            self.source.line("p = 0")
            self.source.line(f"left = {self.elements_max}")
            self.source.line(f"return {self.group(self.layout.group)}")
        return self.source.text(), self.source.constants

    def flush(self) -> None:
        """Writes the lines that unpack the current run of fixed-size fields."""
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        if codes == "B":
            self.source.line(f"{self.run[0][1]} = data[p]")
            self.source.line("p += 1")
            self.run.clear()
            return
        targets = "".join(f"{target}, " for _, target in self.run)
        unpack = self.source.method_of_struct(codes, "unpack_from")
        self.source.line(f"{targets}= {unpack}(data, p)")
        self.source.line(f"p += {calcsize('>' + codes)}")
        self.run.clear()

    def group(self, group: FieldGroup) -> str:
        """Writes the lines that read a structure's fields; returns the expression that makes the structure."""
        values = [(field.name, self.value(field)) for field in group.fields]
        if self.flexible:
            values += self.tagged(group)
        self.flush()
        made = self.source.constant(group.structure.__name__, group.structure)
        return f"{made}({', '.join(f'{name}={value}' for name, value in values)})"

    def value(self, field: Field) -> str:
        """Writes the lines that read a field; returns the expression of its value."""
        return self.of_type(field.type, field.name, field.nullable)

    def of_type(self, wire: WireType, label: str, nullable: bool) -> str:
        if isinstance(wire, Number):
            value = self.source.name("v")
            self.run.append((wire.code, value))
            return value
        if isinstance(wire, FieldGroup):
            return self.nullable_group(wire) if nullable else self.group(wire)
        return self.sized(wire, label, nullable)

    def nullable_group(self, group: FieldGroup) -> str:
        present, value = self.source.name("n"), self.source.name("v")
        self.run.append(("b", present))
        self.flush()
        self.source.line(f"{value} = None")
        with self.source.block(f"if {present} >= 0:"):
            self.source.line(f"{value} = {self.group(group)}")
        return value

    def sized(self, wire: Text | Blob | ArrayOf, label: str, nullable: bool) -> str:
        """Writes the lines that read a string, bytes or an array; returns the name of the value."""
        length, value = self.source.name("n"), self.source.name("v")
        self.length(length, "h" if isinstance(wire, Text) else "i")
        if not nullable:
            self.content(wire, label, length, value)
            return value
        self.source.line(f"{value} = None")
        with self.source.block(f"if {length} >= 0:"):
            self.content(wire, label, length, value)
        return value

    def length(self, length: str, legacy_code: str) -> None:
        """Writes the lines that read a length, −1 for null. A compact length is a varint of the length plus 1."""
        self.run.append(("B" if self.flexible else legacy_code, length))
        self.flush()
        if self.flexible:
            self.long_varint(length)
            self.source.line(f"{length} -= 1")

    def long_varint(self, value: str) -> None:
        with self.source.block(f"if {value} > 127:"):
            self.source.line(f"{value}, p = rest_of_varint(data, p, {value})")

    def content(self, wire: Text | Blob | ArrayOf, label: str, length: str, value: str) -> None:
        if isinstance(wire, ArrayOf):
            self.elements(wire.element, label, length, value)
            return
        self.bound(label, length, 1)
        if self.flexible and isinstance(wire, Text):
            with self.source.block(f"if {length} > {TEXT_BYTES_MAX}:"):
                self.source.line(f"raise too_long_text({label!r}, {length})")
        self.source.line(f"{value} = {self.slice_of(wire)}")
        self.source.line("p = q")

    def slice_of(self, wire: Text | Blob) -> str:
        if isinstance(wire, Text):
            return 'str(data[p:q], "utf-8")' if self.in_place else "data[p:q].decode()"
        view = "data[p:q]" if self.in_place else "memoryview(data)[p:q]"
        return f"[{view}] if q > p else []" if wire.gathered else view

    def bound(self, label: str, count: str, size: int) -> None:
        """Writes the lines that set ``q`` to the end of ``count`` elements, and refuse a count that is null or that the
        remaining bytes cannot hold."""
        self.source.line(f"q = p + {count} * {size}" if size != 1 else f"q = p + {count}")
        with self.source.block("if not p <= q <= end:"):
            self.source.line(f"raise out_of_bounds({label!r}, {count}, p)")

    def elements(self, element: WireType, label: str, count: str, value: str) -> None:
        size = smallest_bytes(element, self.flexible)
        assert size > 0, "elements of no size cannot be counted by the bytes that are left"
        self.bound(label, count, size)
        self.count(count)
        if isinstance(element, Number) and len(element.code) == 1:
            self.source.line(f"{value} = list(unpack_from(f'>{{{count}}}{element.code}', data, p))")
            self.source.line("p = q")
            return
        self.source.line(f"{value} = []")
        with self.source.block(f"for _ in range({count}):"):
            made = self.of_type(element, label, nullable=False)
            self.flush()
            self.source.line(f"{value}.append({made})")

    def count(self, count: str) -> None:
        """Writes the lines that refuse more elements than a body may have."""
        self.source.line(f"left -= {count}")
        with self.source.block("if left < 0:"):
            self.source.line(f"raise too_many_elements({self.elements_max})")

    def tagged(self, group: FieldGroup) -> list[tuple[str, str]]:
        """Writes the lines that read the tagged fields at the end of a structure: known ones are decoded, others are
        skipped."""
        count = self.source.name("n")
        self.run.append(("B", count))
        self.flush()
        values = [(known.field.name, self.default(group, known)) for known in group.tagged]
        with self.source.block(f"if {count}:"):
            self.long_varint(count)
            self.count(count)
            if group.tagged:
                self.known_tags(group, count, [value for _, value in values])
            else:
                self.source.line(f"p = skip_tagged(data, p, {count})")
        return values

    def default(self, group: FieldGroup, known: TaggedField) -> str:
        value = self.source.name("v")
        default = default_of(group, known.field)
        self.source.line(
            f"{value} = " + ("[]" if default == [] else self.source.constant("default", default))
        )
        return value

    def known_tags(self, group: FieldGroup, count: str, values: list[str]) -> None:
        with self.source.block(f"if {count} > {TAGGED_FIELDS_MAX}:"):
            self.source.line(f"raise too_many_tagged({count})")
        tag, end = self.source.name("tag"), self.source.name("end")
        with self.source.block(f"for _ in range({count}):"):
            self.source.line(f"{tag}, p, {end} = tagged_at(data, p)")
            for known, value in zip(group.tagged, values, strict=True):
                with self.source.block(f"if {tag} == {known.tag}:"):
                    made = self.value(known.field)
                    self.flush()
                    self.source.line(f"{value} = {made}")
                    with self.source.block(f"if p != {end}:"):
                        self.source.line(f"raise wrong_tagged({known.field.name!r}, p, {end})")
            self.source.line(f"p = {end}")
