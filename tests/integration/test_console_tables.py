"""Dead letters in the console, of a store that a broker has left: shown, tried, and moved into the table."""

import re
from pathlib import Path

import pytest

import siltstone
from siltstone.console.visitors import Visitor
from siltstone.server.embedded import Broker
from support.console.of_store import ConsoleOfAStore
from support.processes.cli import run

CONFIG = {
    "siltstone.table.format": "iceberg",
    "siltstone.table.value": "json",
    "siltstone.table.columns": "id int",
}
PAGE = "/tables/flights/dead-letters"
SPITE = b"<script>alert(1)</script>"


def exported(folder: Path) -> None:
    with siltstone.open_store(folder) as store:
        assert siltstone.maintenance.plan(store, kinds=["table-export"]).run().is_well


@pytest.fixture
def console(tmp_path: Path) -> ConsoleOfAStore:
    """``flights`` was exported, and three of its records are dead letters: one would fit a wider column."""
    folder = tmp_path / "store"
    with Broker(folder) as broker:
        broker.create_topic("flights", partitions=1, config=CONFIG)
        broker.create_topic("other", partitions=1)
        lines = b'{"id": 1}\n{"id": 5000000000}\n' + SPITE + b'\n{"id": "x"}\n'
        assert run("produce", "flights", "-b", broker.bootstrap_servers, stdin=lines).status == 0
    exported(folder)
    return ConsoleOfAStore(folder)


def widened(folder: Path) -> None:
    with Broker(folder) as broker:
        words = (
            "topics",
            "configure",
            "flights",
            "siltstone.table.columns=id long",
            "-b",
            broker.bootstrap_servers,
        )
        assert run(*words).status == 0
    exported(folder)


def rows(console: ConsoleOfAStore) -> list[str]:
    return run("tables", "--store", console.folder, COLUMNS=None).out.splitlines()[1].split("\t")[3:5]


def test_dead_letters_are_shown_with_reasons_keys_and_values(console: ConsoleOfAStore) -> None:
    for path in ("/", "/tables", "/tables/flights"):
        assert f'href="{PAGE}"' in console.ask(path).text, path
    text = console.ask(PAGE).text
    assert "3 records did not fit the table" in text and text.count("<li><details>") == 3
    assert "5000000000" in text and "&lt;script&gt;alert(1)" in text and "<script>alert" not in text
    assert 'href="/topics/flights/messages?partition=0&offset=2"' in text
    (first, *_) = re.findall(r'<a href="(\?reason=[^"]+)"', text)
    assert console.ask(PAGE + first.replace("&amp;", "&")).text.count("<li><details>") in (1, 2)
    assert console.ask(PAGE + "?reason=none").text.count("<li><details>") == 0
    assert "siltstone tables show flights --errors --store" in text
    assert console.ask("/tables/other/dead-letters").status == 404


def test_wc12_dead_letters_need_the_right_to_read_the_topic(console: ConsoleOfAStore) -> None:
    console.visitor = Visitor("bob", "t", reads=lambda _: False)
    assert console.ask(PAGE).status == 403
    console.visitor = Visitor("bob", "t", sees=lambda _: False)
    assert console.ask(PAGE).status == console.ask(f"{PAGE}/state").status == 404


def test_a_dry_run_comes_first_and_changes_nothing(console: ConsoleOfAStore) -> None:
    form = {"token": "form-token"}
    refused = console.ask(f"{PAGE}/replay", form=form)
    assert refused.status == 409 and "look first at what would fit" in refused.text
    assert console.ask(f"{PAGE}/replay", form={**form, "dry": "1"}).status == 303
    assert "0 dead letters fit table kafka.flights, 3 dead letters stay" in console.ask(PAGE).text
    assert rows(console) == ["1", "3"]
    widened(console.folder)
    assert console.ask(f"{PAGE}/replay", form={**form, "dry": "1"}).status == 303
    text = console.ask(f"{PAGE}/state").text
    assert "1 dead letter fit table kafka.flights, 2 dead letters stay" in text
    assert "Move what fits into the table" in text and "--dead-letters --store" in text
    assert rows(console) == ["1", "3"]
    assert console.ask(f"{PAGE}/replay", form=form).status == 303
    assert rows(console) == ["2", "2"]
    text = console.ask(PAGE).text
    assert "1 dead letter moved to table kafka.flights" in text and "2 records did not fit" in text
    assert console.ask(f"{PAGE}/replay", form=form).status == 409, "each replay has a dry run of its own"


def test_wc03_a_replay_needs_the_right_to_change(console: ConsoleOfAStore) -> None:
    for visitor in (
        Visitor("bob", "form-token"),
        Visitor("bob", "form-token", may_change=True, alters_cluster=False),
        Visitor("bob", "form-token", may_change=True, describes_cluster=False),
    ):
        console.visitor = visitor
        assert console.ask(f"{PAGE}/replay", form={"token": "form-token", "dry": "1"}).status == 403
    assert "What would fit now?" not in console.ask(f"{PAGE}/state").text or visitor.changes_cluster
