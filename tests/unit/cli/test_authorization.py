"""``siltstone authorization`` on a store that no broker has open."""

from typing import Any

from support.processes.cli import Outcome, run


def called(store: Any, *words: str) -> Outcome:
    return run("authorization", *words, "--store", store.folder)


def test_ac20_authorization_is_switched_on_with_a_super_user(store: Any) -> None:
    assert called(store).words == ("Authorization is off: every client may do everything. Super users: none")
    refused = called(store, "on")
    assert refused.status == 2
    assert "siltstone authorization on --super-user User:NAME" in refused.err
    told = called(store, "on", "--super-user", "ops", "--super-user", "User:CN=root", "--json").json
    assert told == {"authorization": {"mode": "on", "super_users": ["User:CN=root", "User:ops"]}}
    assert called(store, "--remove-super-user", "ops").words.endswith("Super users: User:CN=root")
    last = called(store, "--remove-super-user", "User:CN=root")
    assert (last.status, "without a super user" in last.err) == (2, True)
    assert called(store, "off", "--remove-super-user", "User:CN=root").words.startswith(
        "Authorization is off"
    )


def test_what_is_no_principal_is_refused(store: Any) -> None:
    assert called(store, "--super-user", "User:*").status == 2
