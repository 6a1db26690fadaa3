from types import SimpleNamespace

from siltstone.metadata.users import EndSessions
from siltstone.server.ended_sessions import SessionsWatch, follow_ended_sessions
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


def test_it_follows_the_metadata() -> None:
    world = MetadataWorld()
    followed = []
    metadata = SimpleNamespace(image=world.image, add_listener=lambda each: followed.append(each) or "stop")
    assert follow_ended_sessions(metadata, SimpleNamespace()) == "stop"
    assert len(followed) == 1
