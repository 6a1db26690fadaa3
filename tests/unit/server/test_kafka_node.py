from types import SimpleNamespace

import pytest

from siltstone.broker.request import Listener
from siltstone.metadata.commands import FenceNode
from siltstone.metadata.node_address import ListenerMissing, choose_node_listener
from siltstone.metadata.users import EndSessions
from siltstone.model.access import SecurityProtocol
from siltstone.server.kafka_node import NodesCannotLogIn, SessionsWatch, _told_listener
from support.metadata.metadata_world import MetadataWorld


def test_sa28_only_what_is_new_in_an_image_ends_sessions() -> None:
    world = MetadataWorld()
    world.do(EndSessions("User:before"))
    ended: list[set[str]] = []
    following = SessionsWatch(world.image, SimpleNamespace(end_sessions=ended.append))
    following.follow(world.image)
    world.do(EndSessions("User:ada"))
    world.do(EndSessions("User:bob"))
    following.follow(world.image)
    world.do(EndSessions("User:ada"))
    following.follow(world.image)
    assert ended == [{"User:ada", "User:bob"}, {"User:ada"}]


def listener(name: str, protocol: SecurityProtocol) -> Listener:
    return Listener(name, "broker.example", 9092, protocol)


OPEN, ENCRYPTED, LOGIN, SECURE = (
    listener(each.name, each)
    for each in (
        SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL, SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL,
    )
)  # fmt: skip


def test_scans_and_nodes_are_told_the_listener_that_needs_least() -> None:
    world = MetadataWorld()
    for listeners, told in (
        ([SECURE, LOGIN, ENCRYPTED, OPEN], OPEN),
        ([SECURE, LOGIN, ENCRYPTED], ENCRYPTED),
        ([SECURE, LOGIN], LOGIN),
        ([SECURE], SECURE),
    ):
        assert _told_listener(0, listeners, world.image) is told


def test_one_of_several_nodes_needs_a_listener_without_a_login() -> None:
    world = MetadataWorld()
    world.register(0)
    assert _told_listener(0, [SECURE], world.image) is SECURE, "its own registration is no other node"
    world.register(1)
    with pytest.raises(NodesCannotLogIn, match=r"listener SASL_SSL, .* siltstone nodes listener NAME"):
        _told_listener(0, [SECURE], world.image)
    assert _told_listener(0, [SECURE, ENCRYPTED], world.image) is ENCRYPTED
    world.do(FenceNode(1, 1))
    assert _told_listener(0, [SECURE], world.image) is SECURE, "the other node has ended"


def test_a_listener_that_the_store_names_is_told_or_missing() -> None:
    world = MetadataWorld()
    for command in choose_node_listener(world.image, "SSL"):
        world.do(command)
    assert _told_listener(0, [OPEN, ENCRYPTED], world.image) is ENCRYPTED
    with pytest.raises(ListenerMissing, match="node 0 has no listener SSL"):
        _told_listener(0, [OPEN], world.image)
