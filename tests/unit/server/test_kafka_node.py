from types import SimpleNamespace

from siltstone.metadata.commands import FenceNode
from siltstone.metadata.entities import NodeLife
from siltstone.metadata.users import EndSessions
from siltstone.server.kafka_node import SessionsWatch
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


def test_nd01_an_image_that_changes_nodes_ends_the_sessions_of_lives_that_are_over() -> None:
    world = MetadataWorld()
    world.register(0)
    world.register(1)
    lives = [node.life for node in world.image.nodes.values()]
    ended: list[list[NodeLife]] = []
    listeners = SimpleNamespace(
        end_sessions_of_nodes=lambda is_live: ended.append([life for life in lives if not is_live(life)])
    )
    following = SessionsWatch(world.image, listeners)
    world.do(FenceNode(1, 1))
    following.follow(world.image)
    following.follow(world.image)
    assert ended == [[lives[1]]]
