import pytest
from msgspec.structs import replace

from siltstone.metadata.decisions import users as deciding
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.records import ScramCredentialRemoved, ScramCredentialSet, SessionsEnded
from siltstone.metadata.refusals import (
    CommandMalformed,
    CredentialNotAllowed,
    TooManyUsers,
    UserExists,
    UserNameNotAllowed,
    UserNotExist,
)
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.metadata.users import AlterUsers, EndSessions, ScramCredential, ScramUser
from siltstone.model.access import ScramMechanism
from support.metadata.metadata_world import MetadataWorld

SHA_256, SHA_512 = ScramMechanism
OF_256 = ScramCredential(SHA_256, b"salt", b"s" * 32, b"v" * 32, 4096)
OF_512 = ScramCredential(SHA_512, b"salt", b"S" * 64, b"V" * 64, 8192)


@pytest.fixture
def world() -> MetadataWorld:
    """User ada with both mechanisms."""
    made = MetadataWorld()
    assert made.do(AlterUsers(credentials=(("ada", OF_512), ("ada", OF_256)))) == ()
    return made


def test_a_user_is_its_credentials_sorted_by_mechanism(world) -> None:
    assert world.image.users["ada"] == ScramUser("ada", (OF_256, OF_512))
    assert world.image.users["ada"].credential(SHA_512) == OF_512


def test_setting_what_stands_writes_nothing(world) -> None:
    world.do(AlterUsers(credentials=(("ada", OF_256),)))
    assert world.written == 0
    changed = replace(OF_256, salt=b"other")
    world.do(AlterUsers(credentials=(("ada", changed),)))
    assert world.image.users["ada"].credentials == (changed, OF_512)


def test_a_user_without_credentials_is_gone_and_its_sessions_ended(world) -> None:
    world.do(AlterUsers(removals=(("ada", SHA_256),)))
    assert world.image.users["ada"].credentials == (OF_512,)
    assert not world.image.ended_sessions
    world.do(AlterUsers(removals=(("ada", SHA_512),)))
    assert not world.image.users
    assert dict(world.image.ended_sessions) == {"User:ada": world.image.version}


def test_a_change_from_one_mechanism_to_the_other_ends_no_session() -> None:
    world = MetadataWorld()
    world.do(AlterUsers(credentials=(("ada", OF_256),)))
    world.do(AlterUsers(removals=(("ada", SHA_256),), credentials=(("ada", OF_512),)))
    assert world.image.users["ada"].credentials == (OF_512,)
    assert not world.image.ended_sessions


def test_sa11_a_removal_of_what_is_not_there_concerns_that_user_alone(world) -> None:
    answer = world.do(
        AlterUsers(
            removals=(("bob", SHA_256), ("ada", SHA_256)), credentials=(("bob", OF_512), ("eve", OF_512))
        )
    )
    assert answer == ("bob",)
    assert {name: len(user.credentials) for name, user in world.image.users.items()} == {"ada": 1, "eve": 1}


def test_must_exist(world) -> None:
    added = AlterUsers(credentials=(("ada", OF_256),), must_exist=False)
    assert isinstance(world.answer(added), UserExists)
    changed = AlterUsers(credentials=(("bob", OF_256),), must_exist=True)
    assert isinstance(world.answer(changed), UserNotExist)
    assert world.do(replace(added, credentials=(("bob", OF_256),))) == ()


@pytest.mark.parametrize("name", ["", " ada", "a\nb", "a\0", "x" * 256, "\ud800", "siltstone-node"])
def test_sa29_names_that_no_user_may_have(world, name: str) -> None:
    with pytest.raises(UserNameNotAllowed):
        deciding.check_name(name)
    assert isinstance(
        world.answer(AlterUsers(credentials=((name, OF_256),))), UserNameNotAllowed | CommandMalformed
    )


@pytest.mark.parametrize("name", ["ada", "a,b=c", "Zoë", "x" * 255, "CN=svc"])
def test_names_that_a_user_may_have(name: str) -> None:
    deciding.check_name(name)


@pytest.mark.parametrize("change", [
    {"rounds": 4095}, {"rounds": 16385}, {"salt": b""}, {"stored_key": b"s" * 31}, {"server_key": b"v" * 64},
])  # fmt: skip
def test_sa11_credentials_that_are_refused(world, change: dict) -> None:
    wrong = replace(OF_256, **change)
    assert isinstance(world.answer(AlterUsers(credentials=(("ada", wrong),))), CredentialNotAllowed)
    for rounds in (4096, 16384):
        deciding.check_credential("ada", replace(OF_256, rounds=rounds))


def test_there_is_a_limit_of_users(world, monkeypatch) -> None:
    monkeypatch.setattr(deciding, "USERS_MAX", 1)
    assert isinstance(world.answer(AlterUsers(credentials=(("bob", OF_256),))), TooManyUsers)
    world.do(AlterUsers(credentials=(("ada", replace(OF_256, salt=b"new")),)))


def test_sessions_end_by_version(world) -> None:
    world.do(EndSessions("User:CN=svc"))
    first = world.image.ended_sessions["User:CN=svc"]
    world.do(EndSessions("User:CN=svc"))
    assert world.image.ended_sessions["User:CN=svc"] == first + 1 == world.image.version


def test_sa22_users_outlive_a_snapshot_and_an_old_one_has_none(world) -> None:
    world.do(EndSessions("User:bob"))
    loaded = decode_snapshot(world.image.version, encode_snapshot(world.image))
    assert loaded == world.image
    assert loaded.users["ada"] == ScramUser("ada", (OF_256, OF_512))
    assert type(loaded.users["ada"].credentials[0].mechanism) is ScramMechanism
    assert not MetadataImage().users


def test_sp01_keys_and_salts_are_not_shown() -> None:
    record = ScramCredentialSet("ada", 1, b"salt", b"stored", b"server", 4096)
    command = AlterUsers(credentials=(("ada", OF_256),), removals=(("ada", SHA_512),))
    shown = repr((record, OF_256, ScramUser("ada", (OF_256,)), command, ScramCredentialRemoved("ada", 1)))
    assert "ada" in shown and "4096" in shown
    for secret in ("salt", "stored", "server", "sss", "vvv"):
        assert secret not in shown
    assert "User:ada" in repr(SessionsEnded("User:ada"))
