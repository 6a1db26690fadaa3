from collections.abc import Iterator

import pytest

from siltstone.cli.table import command as module
from siltstone.kafka_client.keyed_view import Entry
from siltstone.model.limits import MIB
from support.processes.cli import Outcome, run


class View:
    """As KeyedView: a topic that was read to its end. Key ``late`` is removed before it is looked up."""

    made: tuple = ()
    records_without_key = 0
    size_bytes = 2048

    def __init__(self, bootstrap: str, topic: str, *, bytes_max: int) -> None:
        type(self).made = (bootstrap, topic, bytes_max)
        self.topic = topic
        self._entries = {
            b"b\n": Entry(b"two\tcells", 0, 7, 1_372_680_000_000),
            b"aa": Entry(b"\xff", 3, 1, 5),
            b"a": Entry(b"x" * 130, 1, 0, -1),
        }

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Iterator[bytes]:
        return iter([*self._entries, b"late"])

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, key: bytes) -> Entry:
        return self._entries[key]


@pytest.fixture(autouse=True)
def view(monkeypatch: pytest.MonkeyPatch) -> type[View]:
    class OfThisTest(View):
        pass

    monkeypatch.setattr(module, "KeyedView", OfThisTest)
    return OfThisTest


def shown(*words: object) -> Outcome:
    return run("table", "t", "--bootstrap", "one:1,two:2", *words, COLUMNS="300")


def rows(outcome: Outcome) -> list[list[str]]:
    return [line.split() for line in outcome.out.splitlines()[2:]]


def test_the_keys_in_their_order_with_their_newest_records(view: type[View]) -> None:
    outcome = shown()
    assert (outcome.status, view.made) == (0, ("one:1,two:2", "t", 1024 * MIB))
    assert outcome.out.splitlines()[0].split() == ["key", "value", "partition", "offset", "time", "(UTC)"]
    cut, damaged, last = rows(outcome)
    assert cut == ["a", "x" * 119 + "…", "1", "0", "-"]
    assert damaged == ["aa", "\\xff", "3", "1", "1970-01-01", "00:00:00.005"]
    assert last == ["b\\n", "two\\tcells", "0", "7", "2013-07-01", "12:00:00.000"]
    assert outcome.err == "t: 3 keys, 2.0 KiB in memory\n"


def test_values_of_120_characters_are_whole(view: type[View]) -> None:
    entry = Entry(b"x" * 120, 1, 0, -1)
    assert str(module._cells(module.KeyRow(b"a", entry))[1]) == "x" * 120


def test_a_prefix_and_a_limit(view: type[View]) -> None:
    assert [row[0] for row in rows(shown("--prefix", "a"))] == ["a", "aa"]
    few = shown("--prefix", "a", "--limit", 1)
    assert [row[0] for row in rows(few)] == ["a"]
    assert few.err.splitlines() == ["1 more key (--limit)", "t: 3 keys, 2.0 KiB in memory"]
    assert "more key" not in shown("--prefix", "a", "--limit", 2).err


def test_keys_that_are_named_come_in_that_order_and_a_missing_one_is_a_failure(view: type[View]) -> None:
    found = shown("--key", "aa", "--key", "a")
    assert (found.status, [row[0] for row in rows(found)]) == (0, ["aa", "a"])
    missing = shown("--key", "aa", "--key", "late")
    assert (missing.status, rows(missing)[1]) == (1, ["late", "(not", "found)"])


def test_the_table_as_json(view: type[View]) -> None:
    assert shown("--key", "aa", "--key", "b\n", "--key", "late", "--json").json == {
        "topic": "t",
        "keys": 3,
        "rows": [
            {"key": "aa", "value_base64": "/w==", "partition": 3, "offset": 1, "timestamp": 5},
            {
                "key": "b\n",
                "value": "two\tcells",
                "partition": 0,
                "offset": 7,
                "timestamp": 1_372_680_000_000,
            },
            {"key": "late", "value": None, "offset": None},
        ],
    }


@pytest.mark.parametrize(
    ("skipped", "words"),
    [(1, "1 record without a key was skipped"), (2, "2 records without a key were skipped")],
)
def test_records_without_a_key_are_mentioned(view: type[View], skipped: int, words: str) -> None:
    view.records_without_key = skipped
    assert shown().err == f"t: 3 keys, 2.0 KiB in memory; {words}\n"


def test_the_memory_is_limited(view: type[View]) -> None:
    shown("--memory", 3)
    assert view.made[2] == 3 * MIB
