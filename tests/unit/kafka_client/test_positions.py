import pytest

from siltstone.kafka_client import positions
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.offsets import NO_OFFSET, Ends, FoundOffset
from siltstone.kafka_client.positions import (
    Anchor,
    NoPosition,
    Position,
    Resolved,
    parse_position,
    parse_time_ms,
    resolve,
)
from support.values.left_out import numbers_left_out

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
JULY_MS = 1_372_636_800_000  # 2013-07-01 00:00 UTC


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position(Anchor.EARLIEST)),
        (" Latest ", Position(Anchor.LATEST)),
        ("0", Position(Anchor.OFFSET, 0)),
        ("20130701", Position(Anchor.OFFSET, 20_130_701)),
        ("2013-07-01", Position(Anchor.TIME, JULY_MS)),
        ("2013-07-01T12:30", Position(Anchor.TIME, JULY_MS + 45_000_000)),
        ("2013-07-01 12:30:01.5", Position(Anchor.TIME, JULY_MS + 45_001_500)),
        ("2013-07-01T00:00:00.0004", Position(Anchor.TIME, JULY_MS + 1)),
        ("2013-07-01T00:00:00.0016", Position(Anchor.TIME, JULY_MS + 2)),
        ("2013-07-01T02:00+02:00", Position(Anchor.TIME, JULY_MS)),
        ("2013-07-01T00:00Z", Position(Anchor.TIME, JULY_MS)),
        ("5ms", Position(Anchor.TIME, NOW_MS - 5)),
        ("3 s ago", Position(Anchor.TIME, NOW_MS - 3_000)),
        ("@0", Position(Anchor.TIME, 0)),
        ("@" + "9" * 30, Position(Anchor.TIME, 2**63 - 1)),
        ("10min", Position(Anchor.TIME, NOW_MS - 600_000)),
        ("2 h ago", Position(Anchor.TIME, NOW_MS - 7_200_000)),
        ("7d", Position(Anchor.TIME, NOW_MS - 7 * DAY_MS)),
        ("99999999d", Position(Anchor.TIME, 0)),
        ("1960-01-01", Position(Anchor.TIME, 0)),
        ("@1372636800000", Position(Anchor.TIME, JULY_MS)),
        (str(2**63 - 1), Position(Anchor.OFFSET, 2**63 - 1)),
    ],
)
def test_places_as_people_write_them(text: str, position: Position) -> None:
    assert parse_position(text, "--from", NOW_MS) == position


@pytest.mark.parametrize(
    "text", ["", "soon", "-5", "10 years", "2013-13-01", "@", "@x", "@٣", "@1\u0663", "1.5h", "٣", str(2**63)]
)
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(NoPosition, match=r"^--from"):
        parse_position(text, "--from", NOW_MS)


def test_where_only_a_time_can_stand() -> None:
    assert parse_time_ms("2013-07-01", "--before-time", NOW_MS) == JULY_MS
    for text in ("100", "20130701", "earliest", "latest", ""):
        with pytest.raises(NoPosition, match="--before-time"):
            parse_time_ms(text, "--before-time", NOW_MS)


T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
ENDS = {T0: Ends(3, 10), T1: Ends(0, 5), T2: Ends(7, 9)}


@pytest.mark.parametrize(
    ("position", "offsets"),
    [
        (Position(Anchor.EARLIEST), [3, 0, 7]),
        (Position(Anchor.LATEST), [10, 5, 9]),
        (Position(Anchor.OFFSET, 0), [3, 0, 7]),
        (Position(Anchor.OFFSET, 6), [6, 5, 7]),
        (Position(Anchor.OFFSET, 100), [10, 5, 9]),
        (
            Position(Anchor.TIME, JULY_MS),
            [4, 5, 7],
        ),  # of the second no record is as new; the third was trimmed
    ],
)
def test_a_place_has_an_offset_within_each_partition(
    position: Position, offsets: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {T0: FoundOffset(4, JULY_MS), T1: FoundOffset(NO_OFFSET, -1), T2: FoundOffset(6, JULY_MS)}
    monkeypatch.setattr(positions, "ends_of", lambda _, keys: {key: ENDS[key] for key in keys})
    monkeypatch.setattr(positions, "offsets_at", lambda _, __, time_ms: found if time_ms == JULY_MS else {})
    resolved = resolve(None, ENDS, position)
    assert resolved == {key: Resolved(offset, ENDS[key]) for key, offset in zip(ENDS, offsets, strict=True)}


def test_what_is_left_out() -> None:
    assert numbers_left_out(Position) == {"value": -1}
