"""The plan: which files are joined or merged in a round."""

from siltstone.model.limits import MIB
from siltstone.tables.formats.port import DataFile, TableFile
from siltstone.tables.joining import (
    JOINS_MAX,
    SMALL_BYTES,
    SMALL_FILES_MAX,
    Rewrite,
    joins,
    merges,
    tasks_of,
)
from siltstone.tables.task_input import FILE_BYTES


def files(day: int, *sizes: int) -> list[TableFile]:
    return [
        TableFile(f"data/{day}-{number:02}.parquet", 1, size, (day,)) for number, size in enumerate(sizes)
    ]


NEW = files(1, 5)


def test_small_files_are_joined_when_there_are_many() -> None:
    there = files(1, *[10] * SMALL_FILES_MAX)
    assert joins(there, NEW) == [Rewrite((1,), tuple(there))]
    assert joins(there[1:], NEW) == []
    assert joins(iter(there), NEW) == joins(there, NEW)


def test_large_files_and_those_of_values_without_new_rows_stay() -> None:
    large = files(1, *[SMALL_BYTES] * 20)
    assert joins(large, NEW) == [] and joins(files(2, *[10] * 20), NEW) == []
    assert joins(files(1, *[SMALL_BYTES - 1] * 20), NEW) != []
    assert joins(files(1, *[10] * 20), []) == []


def test_the_smallest_are_joined_to_one_file() -> None:
    there = files(1, *[30 * MIB] * 8, 1, 1, 1)
    (found,) = joins(there, NEW)
    assert [each.size_bytes for each in found.old] == [1, 1, 1, *[30 * MIB] * 4]
    assert sum(each.size_bytes for each in found.old) <= FILE_BYTES


def test_a_round_joins_a_limited_number_of_values_the_worst_first() -> None:
    there = [each for day in range(JOINS_MAX + 5) for each in files(day, *[10] * (SMALL_FILES_MAX + day))]
    found = joins(there, [DataFile("x", 1, 1, (day,)) for day in range(JOINS_MAX + 5)])
    assert [each.values for each in found] == [(day,) for day in range(JOINS_MAX + 4, 4, -1)]


def test_staged_files_are_merged_with_the_files_of_their_buckets() -> None:
    there = [*files(0, 10, 10), *files(1, 10), *files(2, 10)]
    staged = [*files(1, 7), *files(3, 7), *files(1, 8)]
    assert merges("kafka.t", there, staged) == [
        Rewrite((1,), (there[2],), (staged[0], staged[2])),
        Rewrite((3,), (), (staged[1],)),
    ]


def test_small_rewrites_share_a_task_and_every_slot_gets_one() -> None:
    small = merges("kafka.t", [], [file for day in range(16) for file in files(day, MIB)])
    assert [len(each) for each in tasks_of(small, 2)] == [8, 8]
    assert [len(each) for each in tasks_of(small, 100)] == [1] * 16
    large = merges("kafka.t", [], [file for day in range(5) for file in files(day, 20 * MIB)])
    assert [len(each) for each in tasks_of(large, 1)] == [2, 2, 1]
    assert tasks_of([], 2) == [] and [each for task in tasks_of(large, 2) for each in task] == large
