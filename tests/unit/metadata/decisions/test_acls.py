"""The decisions about ACLs, the mode of authorization and super users."""

import pytest
from msgspec.structs import replace

from siltstone.metadata.acls import CreateAcls, DeleteAcls, SetAuthorization
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.model.acls import (
    EVERYBODY,
    AclBinding,
    AclOperation,
    AclResourceType,
    Authorization,
    AuthorizationMode,
    PatternType,
    Permission,
)
from siltstone.model.serving_limits import (
    ACL_TEXT_BYTES_MAX,
    ACLS_CREATED_AT_ONCE_MAX,
    ACLS_DELETED_AT_ONCE_MAX,
    SUPER_USERS_MAX,
)
from support.metadata.metadata_records import MAY_NOTHING, MAY_READ
from support.metadata.metadata_world import MetadataWorld


@pytest.fixture
def world() -> MetadataWorld:
    return MetadataWorld()


def test_ac12_what_stands_is_no_record_and_what_is_new_is_one(world: MetadataWorld) -> None:
    assert world.outcome(CreateAcls((MAY_READ, MAY_NOTHING, MAY_READ))) == ("OK", 1)
    assert world.outcome(CreateAcls((MAY_NOTHING,))) == ("OK", 0)
    assert set(world.image.acls.values()) == {MAY_READ, MAY_NOTHING}
    assert world.do(DeleteAcls((MAY_NOTHING, replace(MAY_READ, host="10.0.0.8")))) == (MAY_NOTHING,)
    assert world.outcome(DeleteAcls((MAY_NOTHING,))) == ("OK", 0)
    assert list(world.image.acls.values()) == [MAY_READ], "only what was deleted is gone (CVE-2024-27309)"


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        (replace(MAY_READ, resource_type=AclResourceType.ANY), "no resource type"),
        (replace(MAY_READ, pattern_type=PatternType.MATCH), "neither LITERAL nor PREFIXED"),
        (replace(MAY_READ, operation=AclOperation.UNKNOWN), "no operation"),
        (replace(MAY_READ, permission=Permission.ANY), "neither allows nor denies"),
        (replace(MAY_READ, name=""), "is empty"),
        (replace(MAY_NOTHING, name="foo"), "kafka-cluster"),
        (replace(MAY_READ, principal="ada"), "no principal"),
        (replace(MAY_READ, principal="User:"), "no principal"),
        (replace(MAY_READ, name="a" * (ACL_TEXT_BYTES_MAX + 1)), "bytes"),
        (replace(MAY_READ, host="a\0b"), "number 0"),
        (replace(MAY_READ, name="\udc80"), "Unicode"),
    ],
)
def test_ac12_a_binding_that_no_store_may_have(world: MetadataWorld, binding: AclBinding, words: str) -> None:
    expected = "INVALID_REQUEST" if binding.name == "\udc80" else "ACL_NOT_ALLOWED"
    assert world.outcome(CreateAcls((MAY_READ, binding)))[0] == expected
    assert not world.image.acls


def test_ac12_too_many_at_once(world: MetadataWorld) -> None:
    many = tuple(replace(MAY_READ, name=f"t{number}") for number in range(ACLS_DELETED_AT_ONCE_MAX + 1))
    assert world.outcome(CreateAcls(many[: ACLS_CREATED_AT_ONCE_MAX + 1])) == ("TOO_MANY_ACLS", 0)
    assert world.outcome(DeleteAcls(many)) == ("TOO_MANY_ACLS", 0)
    assert world.outcome(CreateAcls(many[:ACLS_CREATED_AT_ONCE_MAX])) == ("OK", 1)


def test_ac20_on_needs_a_super_user_and_the_last_one_stays(world: MetadataWorld) -> None:
    assert world.outcome(SetAuthorization(AuthorizationMode.ON)) == ("NO_SUPER_USER", 0)
    on = SetAuthorization(AuthorizationMode.ON, added=("User:root", "User:ops"))
    assert world.do(on) == Authorization(AuthorizationMode.ON, ("User:ops", "User:root"))
    assert world.outcome(on) == ("OK", 0)
    world.do(SetAuthorization(removed=("User:ops",)))
    assert world.outcome(SetAuthorization(removed=("User:root",))) == ("NO_SUPER_USER", 0)
    assert world.image.authorization == Authorization(AuthorizationMode.ON, ("User:root",))
    world.do(SetAuthorization(AuthorizationMode.OFF, removed=("User:root",)))
    assert world.image.authorization == Authorization()


def test_what_is_no_super_user(world: MetadataWorld) -> None:
    assert world.outcome(SetAuthorization(added=("root",))) == ("ACL_NOT_ALLOWED", 0)
    assert world.outcome(SetAuthorization(added=(EVERYBODY,))) == ("ACL_NOT_ALLOWED", 0)
    many = tuple(f"User:{number}" for number in range(SUPER_USERS_MAX + 1))
    assert world.outcome(SetAuthorization(added=many)) == ("TOO_MANY_ACLS", 0)


def test_a_snapshot_keeps_bindings_mode_and_super_users(world: MetadataWorld) -> None:
    world.do(CreateAcls((MAY_READ, MAY_NOTHING)))
    world.do(SetAuthorization(AuthorizationMode.REPORT, added=("User:root",)))
    assert decode_snapshot(world.image.version, encode_snapshot(world.image)) == world.image
