from collections import Counter

from siltstone.model.limits import MIB
from siltstone.tables.dead_letters import DeadLettersShown, count_reasons, shown_dead_letters
from siltstone.tables.formats.choosing import open_format
from siltstone.tables.replaying import OTHER_REASONS, REASONS_MAX
from support.maintenance.table_world import TableWorld


def shown(
    world: TableWorld, letters_max: int = 10, reason: str = "", counted_max: int = 1_000, bytes_max: int = MIB
) -> DeadLettersShown:
    with open_format("parquet", world.settings) as tables:
        table = tables.load("kafka.t__errors")
        assert table is not None
        return shown_dead_letters(table, world.settings.location, letters_max, reason, counted_max, bytes_max)


def with_letters(world: TableWorld, *values: str) -> int:
    (stream,) = world.kept(value="json", columns="id long")
    world.append_values(stream, '{"id": 1}', *values)
    world.export_now()
    return stream


def test_letters_are_shown_with_the_reasons_of_all(plain: TableWorld) -> None:
    with_letters(plain, '{"id": "a"}', "x", '{"id": "b"}')
    found = shown(plain)
    assert (found.rows, found.counted) == (3, 3)
    assert [each.offset for each in found.letters] == [1, 2, 3]
    assert [each.value for each in found.letters] == [b'{"id": "a"}', b"x", b'{"id": "b"}']
    assert (
        sum(found.reasons.values()) == 3
        and list(found.reasons.values()) == sorted(found.reasons.values())[::-1]
    )
    of_one = found.letters[1].reason
    assert [each.value for each in shown(plain, reason=of_one).letters] == [b"x"]
    assert shown(plain, reason="nonsense").letters == ()


def test_reading_is_bounded(plain: TableWorld) -> None:
    stream = with_letters(plain, *["x"] * 5)
    plain.append_values(stream, *["y"] * 5)
    plain.export_now()
    found = shown(plain, letters_max=3)
    assert (found.rows, found.counted, len(found.letters)) == (10, 10, 3)
    few = shown(plain, counted_max=4)
    assert (few.rows, few.counted) == (10, 5), "a file is counted whole"


def test_wc17_large_letters_are_few(plain: TableWorld) -> None:
    with_letters(plain, *["x" * 100] * 5)
    assert len(shown(plain, bytes_max=250).letters) == 3, "there was room before the third"
    assert len(shown(plain, bytes_max=50).letters) == 1, "the first one is shown, however large it is"
    assert len(shown(plain, bytes_max=500).letters) == 5


def test_reasons_are_bounded() -> None:
    reasons: Counter[str] = Counter()
    count_reasons(reasons, [*(str(number) for number in range(REASONS_MAX + 30)), "0", None])
    assert len(reasons) == REASONS_MAX + 1
    assert (reasons["0"], reasons[OTHER_REASONS]) == (2, 31)
