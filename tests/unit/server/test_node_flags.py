"""In what the nodes of one machine differ: values in, values out."""

from pathlib import Path

import pytest

from siltstone.server.network.addresses import InvalidListener
from siltstone.server.node_flags import flags_of_nodes
from siltstone.server.settings.node import NodeSettings, load_node_settings

FOLDER = Path("/store")


def settings(**flags: str) -> NodeSettings:
    named = {name.replace("__", "."): value for name, value in flags.items()}
    return load_node_settings(FOLDER, flags=named, environment={})


def test_each_node_has_its_number_and_the_next_port() -> None:
    assert flags_of_nodes(settings(), 3) == {
        number: {"engine.node_id": str(number), "listeners": f"PLAINTEXT://127.0.0.1:{9092 + number}"}
        for number in range(3)
    }


def test_the_numbers_begin_with_that_of_the_settings() -> None:
    assert list(flags_of_nodes(settings(engine__node_id="7"), 2)) == [7, 8]


def test_all_that_listens_moves_and_any_free_port_stays_any() -> None:
    given = settings(
        listeners=":19092,EXTERNAL://[::1]:0",
        advertised_listeners="here:1,EXTERNAL://[::2]:200",
        listener_security_protocol_map="EXTERNAL:PLAINTEXT",
        admin__listeners="127.0.0.1:9644,[::1]:0",
    )
    assert flags_of_nodes(given, 2)[1] == {
        "engine.node_id": "1",
        "listeners": "PLAINTEXT://:19093,EXTERNAL://[::1]:0",
        "advertised_listeners": "PLAINTEXT://here:2,EXTERNAL://[::2]:201",
        "admin.listeners": "127.0.0.1:9645,[::1]:0",
    }
    assert flags_of_nodes(given, 1)[0]["admin.listeners"] == "127.0.0.1:9644,[::1]:0"


def test_a_folder_of_the_log_that_was_named_has_a_folder_for_each_node() -> None:
    flags = flags_of_nodes(settings(wal_folder="/fast/log", engine__node_id="4"), 2)
    assert [each["wal_folder"] for each in flags.values()] == ["/fast/log/node-4", "/fast/log/node-5"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            {"listeners": "a:10,PLAINTEXT2://a:12", "listener_security_protocol_map": "PLAINTEXT2:PLAINTEXT"},
            "meet at port 12",
        ),
        ({"listeners": "a:10", "admin__listeners": "127.0.0.1:11"}, "meet at port 11: leave 3 ports free"),
        ({"listeners": "a:65534"}, "3 nodes need 3 ports from there on, and 65535 is the last"),
    ],
)
def test_ports_that_two_nodes_would_have_are_refused(flags: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidListener, match=words):
        flags_of_nodes(settings(**flags), 3)


def test_ports_that_just_fit_are_taken() -> None:
    flags_of_nodes(settings(listeners="a:65533", admin__listeners="127.0.0.1:65530"), 3)
