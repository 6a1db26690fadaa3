"""The address of a node by the listener that a client names. The tests of the command have the rest."""

from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.metadata.entities import NodeListener
from siltstone.metadata.node_address import ListenerMissing, node_address, put_node_address


def image_of(**listeners: tuple[NodeListener, ...]) -> Any:
    nodes = {
        number: SimpleNamespace(node_id=number, listeners=each)
        for number, each in enumerate(listeners.values(), 1)
    }
    put = put_node_address(1, "h1:9092")
    return SimpleNamespace(keys={put.key: put.value}, nodes=nodes)


IN, OUT = NodeListener("IN", "h1", 9092), NodeListener("OUT", "::1", 9093)


def test_without_a_name_it_is_the_address_that_the_node_tells() -> None:
    image = image_of(first=(IN, OUT), second=())
    assert [node_address(image, number) for number in (1, 2)] == ["h1:9092", None]


def test_a_listener_has_an_address_where_a_node_has_it() -> None:
    image = image_of(first=(IN, OUT), second=(IN,))
    assert [node_address(image, number, "OUT") for number in (1, 2, 3)] == ["[::1]:9093", None, None]


def test_a_listener_that_no_node_has_is_an_error_with_the_names_there_are() -> None:
    with pytest.raises(
        ListenerMissing, match=r"names SECURE, and no node .* set it to IN or OUT, or leave it out"
    ):
        node_address(image_of(first=(IN, OUT), second=(IN,)), 1, "SECURE")
    with pytest.raises(ListenerMissing, match="no node has started yet"):
        node_address(image_of(), 1, "SECURE")
