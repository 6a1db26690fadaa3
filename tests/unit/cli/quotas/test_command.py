"""``siltstone quotas`` on a store that no broker has open."""

from typing import Any

import pytest

from siltstone.metadata.commands import RegisterNode
from siltstone.offline.opening.store import open_store
from support.processes.cli import Outcome, run


def called(store: Any, *words: str) -> Outcome:
    return run("quotas", *words, "--store", store.folder)


def test_quotas_are_set_listed_and_removed(store: Any) -> None:
    assert "There are no quotas" in called(store).words
    assert called(
        store, "set", "producer_byte_rate=1_000_000", "request_percentage=12.5", "--user", "ada"
    ).words == ("user ada: 2 limits were set.")
    called(store, "set", "consumer_byte_rate=2000000", "--default", "user", "--default", "client-id")
    called(store, "set", "connection_creation_rate=5", "--ip", "10.0.0.7")
    assert called(store, "list", "--json").json["quotas"] == [
        {"entity": {"client-id": None, "user": None}, "limits": {"consumer_byte_rate": 2_000_000}},
        {"entity": {"ip": "10.0.0.7"}, "limits": {"connection_creation_rate": 5}},
        {"entity": {"user": "ada"}, "limits": {"producer_byte_rate": 1_000_000, "request_percentage": 12.5}},
    ]
    listed = called(store).words
    assert "user <default>, client-id <default> consumer_byte_rate 2,000,000" in listed
    assert "user ada request_percentage 12.5" in listed
    removed = called(store, "remove", "request_percentage", "--user", "ada", "--yes")
    assert removed.words.endswith("user ada: 1 limit was removed.")
    assert called(store, "remove", "--user", "ada", "--yes").words.endswith("1 limit was removed.")
    assert called(store, "remove", "--user", "ada", "--yes").words.startswith("Nothing was removed")


def test_which_limits_count_for_a_client(store: Any) -> None:
    called(store, "set", "producer_byte_rate=7", "--default", "user")
    called(store, "set", "producer_byte_rate=3", "--user", "ada", "--client-id", "app")
    called(store, "set", "connection_creation_rate=5", "--default", "ip")
    assert called(store, "of", "ada", "--client-id", "app", "--ip", "10.0.0.7", "--json").json["quotas"] == [
        {"key": "producer_byte_rate", "limit": 3, "shared_by": "user ada, client-id app"},
        {"key": "connection_creation_rate", "limit": 5, "shared_by": "ip 10.0.0.7"},
    ]
    assert "producer_byte_rate 7 user ada" in called(store, "of", "ada").words


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("set", "producer_byte_rate=5"), "nobody is named"),
        (("set", "producer_byte_rate=5", "--user", "a", "--default", "user"), "two quotas"),
        (("set", "producer_byte_rate=5", "--user", ""), "a name is empty"),
        (("set", "producer_byte_rate", "--user", "a"), "is no limit"),
        (("set", "producer_byte_rate=0", "--user", "a"), "greater than 0"),
        (("set", "producer_byte_rate=1.5", "--user", "a"), "whole number"),
        (("set", "producer_byte_rate=1", "--user", "a", "--ip", "10.0.0.7"), "leave those out"),
        (("set", "producer_byte_rate=1", "--ip", "10.0.0.7"), "of users and client ids"),
        (("set", "connection_creation_rate=1", "--ip", "localhost"), "is no address"),
        (("set", "bytes=1", "--user", "a"), "is no quota: known are producer_byte_rate"),
        (("remove", "bytes", "--user", "a"), "is no quota"),
    ],
)
def test_what_makes_no_sense_is_refused(store: Any, words: tuple[str, ...], line: str) -> None:
    outcome = called(store, *words)
    assert outcome.status == 2 and line in outcome.err


def test_qu14_the_list_says_how_many_nodes_allow_as_much(store: Any) -> None:
    with open_store(store) as opened:
        for node in range(3):
            opened.metadata.execute(RegisterNode(node, f"life {node}", "wal"))
    called(store, "set", "producer_byte_rate=1000000", "--user", "ada")
    outcome = called(store)
    assert "Each of the 3 live nodes allows this much, so all together × 3" in " ".join(outcome.err.split())
    assert called(store, "list", "--json").json["live_nodes"] == 3
