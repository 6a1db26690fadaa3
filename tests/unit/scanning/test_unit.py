import msgspec
import pytest

from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.request import TimeRange
from siltstone.scanning.unit import ScanPiece, ScanUnit, TailPiece, decode_unit, encode_unit
from siltstone.value_formats.value_format import FormatKind, Schema, ValueFormat

UNIT = ScanUnit(
    "store", ("offset", "value"), {0: "memory:a"}, 5, 0, (ScanPiece("flights", 1, 7, 9, 0, 900, 10, 30, 400),)
)
TAIL = TailPiece("flights", "0" * 32, 1, 7, 0, "127.0.0.1:9092", "cluster", 30, 35)


def test_a_unit_arrives_as_it_was_planned() -> None:
    times = TimeRange(5, None, trusts_batches=True)
    values = ValueFormat(FormatKind.JSON, b"type", Schema(FormatKind.JSON, "{}"), "http://registry")
    chosen = msgspec.structs.replace(UNIT, times=times, value_format=values)
    for unit in (UNIT, chosen, msgspec.structs.replace(UNIT, pieces=(), tail_pieces=(TAIL,))):
        assert decode_unit(encode_unit(unit)) == unit
    assert (UNIT.size_bytes, UNIT.offset_count, TAIL.name) == (400, 20, "flights-1")
    assert msgspec.structs.replace(UNIT, pieces=(), tail_pieces=(TAIL,)).offset_count == 5


def test_a_unit_of_another_version_is_refused_by_name() -> None:
    newer = msgspec.msgpack.encode({"version": 5, "pieces": "in a form of the future"})
    with pytest.raises(ScanRefused, match="unit version 5, this one reads 4"):
        decode_unit(newer)
