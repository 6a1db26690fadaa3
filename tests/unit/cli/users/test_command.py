"""``siltstone users`` on a store that no broker has open."""

from pathlib import Path

import pytest

from siltstone.foundation.scram import keys_of, salted_password
from siltstone.metadata.image import MetadataImage
from siltstone.model.access import ScramMechanism
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings
from support.processes.cli import Outcome, assert_one_line, run


def called(store: NodeSettings, *words: str, stdin: bytes | None = None) -> Outcome:
    return run("users", *words, "--store", store.folder, stdin=stdin)


def image_of(store: NodeSettings) -> MetadataImage:
    with open_store(store) as opened:
        return opened.metadata.image


def knows(store: NodeSettings, user: str, password: bytes) -> set[ScramMechanism]:
    """The mechanisms by which the user logs in with this password."""
    return {
        each.mechanism
        for each in image_of(store).users[user].credentials
        if each.stored_key
        == keys_of(
            each.mechanism.algorithm,
            salted_password(each.mechanism.algorithm, password, each.salt, each.rounds),
        ).stored_key
    }


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text("pencil\nnot this line\n")
    file.chmod(0o600)
    return file


def test_sa22_the_first_user_needs_no_broker(store, secret) -> None:
    assert called(store).words == "There are no users; siltstone users add makes one."
    assert called(store, "add", "ada", "--password-file", str(secret)).words == "User ada was added."
    assert knows(store, "ada", b"pencil") == set(ScramMechanism)
    assert called(store).words.endswith("ada SCRAM-SHA-256 (8192), SCRAM-SHA-512 (8192)")
    assert called(store, "list", "--json").json == {
        "users": [{"user": "ada", "mechanisms": {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 8192}}]
    }


def test_each_user_and_mechanism_has_a_salt_of_its_own(store) -> None:
    for user in ("ada", "bob"):
        assert called(store, "add", user, "--password-file", "-", stdin=b"pencil").status == 0
    salts = {each.salt for user in image_of(store).users.values() for each in user.credentials}
    assert len(salts) == 4 and {len(each) for each in salts} == {20}


def test_a_password_is_changed_for_all_mechanisms_that_stand(store) -> None:
    called(store, "add", "ada", "--password-file", "-", "--rounds", "4096", stdin=b"old")
    before = image_of(store).ended_sessions
    changed = called(
        store, "password", "ada", "--password-file", "-", "--mechanism", "scram-sha-512", stdin=b"new"
    )
    assert changed.words == "The password of user ada was changed."
    assert knows(store, "ada", b"new") == {ScramMechanism.SCRAM_SHA_512}
    assert knows(store, "ada", b"old") == set(), "no mechanism keeps the old password"
    assert image_of(store).ended_sessions == before
    called(store, "password", "ada", "--password-file", "-", "--end-sessions", stdin=b"newer")
    assert "User:ada" in image_of(store).ended_sessions


def test_a_user_is_removed_after_a_question(store) -> None:
    called(store, "add", "ada", "--password-file", "-", stdin=b"pencil")
    assert_one_line(called(store, "remove", "ada"), 2, "Remove user ada and end its sessions?", "--yes")
    assert called(store, "remove", "ada", "--yes").words == "User ada was removed."
    image = image_of(store)
    assert not image.users and "User:ada" in image.ended_sessions


def test_sessions_of_certificates_end_by_their_whole_name(store) -> None:
    assert called(store, "end-sessions", "ada").words == "The sessions of User:ada end now."
    called(store, "end-sessions", "User:CN=svc,O=Acme")
    assert set(image_of(store).ended_sessions) == {"User:ada", "User:CN=svc,O=Acme"}


def test_what_is_refused_writes_nothing(store) -> None:
    called(store, "add", "ada", "--password-file", "-", stdin=b"pencil")
    version = image_of(store).version
    refused = {
        ("add", "ada", "--password-file", "-"): "there is a user ada already",
        ("add", "siltstone-node", "--password-file", "-"): "are those of nodes",
        ("password", "bob", "--password-file", "-"): "there is no user bob",
        ("remove", "bob", "--yes"): "there is no user bob",
        ("add", "bob"): "not a terminal, so no password can be asked for",
    }
    for words, said in refused.items():
        assert_one_line(called(store, *words, stdin=b"pencil"), 2, said)
    assert image_of(store).version == version
