"""``siltstone acls`` on a store that no broker has open."""

from typing import Any

import pytest

from siltstone.cli.acls.command import who_rows
from siltstone.cli.acls.options import Resource
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.image import MetadataImage
from siltstone.model.acls import (
    AclOperation,
    AclResourceType,
    Authorization,
    AuthorizationMode,
    PatternType,
    Permission,
)
from support.processes.cli import Outcome, run
from support.security.rights import EVERYBODY, STRANGER, allow


def called(store: Any, *words: str) -> Outcome:
    return run("acls", *words, "--store", store.folder)


def test_ac17_acls_are_added_listed_and_removed(store: Any) -> None:
    assert "There are no such ACLs" in called(store).words
    assert called(store, "add", "ada", "read", "write", "--topic", "flights").words == "2 ACLs were added."
    assert called(store, "add", "ada", "READ", "--topic", "flights").words.startswith("Nothing was added")
    added = called(
        store, "add", "User:CN=svc", "all", "--group", "fl", "--prefixed", "--host", "10.0.0.7", "--deny"
    )
    assert added.words == "1 ACL was added."
    listed = called(store, "list", "--topic", "flights", "--json").json
    assert listed == {
        "acls": [
            {
                "permission": "allow", "principal": "User:ada", "host": "*", "operation": operation,
                "resource": "topic", "name": "flights", "pattern": "literal",
            }
            for operation in ("read", "write")
        ]
    }  # fmt: skip
    assert "deny User:CN=svc 10.0.0.7 all group fl…" in called(store, "list", "--group", "flights").words
    assert "group" not in called(store, "list", "--principal", "ada").words
    removed = called(store, "remove", "--principal", "ada", "--operation", "write", "--yes")
    assert removed.words.endswith("1 ACL was removed.")
    assert (
        called(store, "remove", "--topic", "fl", "--yes").words
        == "Nothing was removed: there are no such ACLs."
    )
    assert called(store, "remove", "--group", "fl", "--prefixed", "--yes").status == 0
    assert [each["operation"] for each in called(store, "list", "--json").json["acls"]] == ["read"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("add", "ada", "read"), "no resource is named"),
        (("add", "User:", "read", "--topic", "t"), "is no principal"),
        (("list", "--topic", "a", "--group", "b"), "several resources"),
        (("remove", "--operation", "read"), "all ACLs at once are not removed"),
        (("remove", "--principal", "ada"), "I cannot ask"),
        (("who-may", "read"), "no resource is named"),
    ],
)
def test_a_wrong_line_says_what_to_write(store: Any, words: tuple[str, ...], line: str) -> None:
    called(store, "add", "ada", "read", "--topic", "t")
    outcome = called(store, *words)
    assert outcome.status == 2
    assert line in outcome.err


def test_who_may(store: Any) -> None:
    assert called(store, "who-may", "read", "--topic", "t").words == "Nobody may, while authorization is on."
    called(store, "add", "ada", "write", "--topic", "t")
    called(store, "add", "bob", "all", "--topic", "t", "--deny")
    told = called(store, "who-may", "describe", "--topic", "t", "--json").json
    assert told["who_may"] == [
        {"principal": "User:ada", "host": "*", "because": "ALLOW User:ada from *: WRITE on TOPIC t"}
    ]
    assert [each["principal"] for each in told["denied"]] == ["User:bob"]


def test_who_may_names_super_users_prefixes_and_hosts() -> None:
    bindings = (
        allow(AclOperation.READ, AclResourceType.TOPIC, "fl", pattern=PatternType.PREFIXED, host="10.0.0.7"),
        allow(AclOperation.READ, AclResourceType.TOPIC, "*", principal=EVERYBODY),
        allow(
            AclOperation.READ, AclResourceType.TOPIC, "flights", permission=Permission.DENY, host="10.0.0.8"
        ),
    )
    image = MetadataImage(
        acls=ShardedMap((each.key, each) for each in bindings),
        authorization=Authorization(AuthorizationMode.ON, ("User:root",)),
    )
    topic = Resource(AclResourceType.TOPIC, "flights", PatternType.LITERAL)
    rows = [(row.principal, row.host) for row in who_rows(image, AclOperation.READ, topic)]
    assert rows == [("User:root", "*"), ("User:*", "*"), (str(STRANGER), "10.0.0.7")]
