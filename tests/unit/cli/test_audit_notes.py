"""Commands that change the metadata without a broker leave notes for the audit, where the store has one."""

import pytest

from siltstone.metadata.changes import NOTES_MAX, AuditNote, note_command, note_of, waiting_notes
from siltstone.metadata.commands import CreateTopic, RegisterNode
from siltstone.model.audit import AUDIT_TOPIC, AuditEvent, AuditKind
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings
from support.processes.cli import run


def notes_of(settings: NodeSettings) -> list[AuditNote]:
    with open_store(settings) as store:
        keys = store.metadata.image.keys
        return [note_of(keys[key]) for key in waiting_notes(keys)]


@pytest.fixture
def audited(store: NodeSettings) -> NodeSettings:
    with open_store(store) as opened:
        opened.metadata.execute(RegisterNode(7, "life", "wal", failover=False))
        epoch = opened.metadata.image.nodes[7].node_epoch
        opened.metadata.execute(CreateTopic(7, epoch, AUDIT_TOPIC, "a" * 32, 1, is_internal=True))
    return store


def test_au03_commands_say_who_changed_what_and_no_secret(audited: NodeSettings) -> None:
    at = ("--store", audited.folder)
    assert run("users", "add", "ada", "--password-file", "-", *at, stdin=b"pl4nted").status == 0
    assert run("authorization", "on", "--super-user", "ops", *at).status == 0
    assert run("acls", "add", "ada", "read", "--topic", "t", *at).status == 0
    assert run("quotas", "set", "producer_byte_rate=5", "--user", "ada", *at).status == 0
    assert run("users", "end-sessions", "ada", *at).status == 0
    events = [each.event for each in notes_of(audited)]
    assert {each.event.value for each in events} == {"user", "mode", "acl", "quota", "session_end"}
    assert all(each.principal.startswith("OS:") and each.host and each.api == "siltstone" for each in events)
    assert "pl4nted" not in str(events)


def test_au03_a_store_without_an_audit_gets_no_notes(store: NodeSettings) -> None:
    assert run("authorization", "on", "--super-user", "ops", "--store", store.folder).status == 0
    assert notes_of(store) == []


def test_au02_notes_that_no_broker_takes_are_bounded(audited: NodeSettings) -> None:
    note = AuditNote(0, AuditEvent(event=AuditKind.MODE))
    with open_store(audited) as store:
        store.metadata.execute_all([note_command(str(number), note) for number in range(NOTES_MAX)])
    assert run("authorization", "on", "--super-user", "ops", "--store", audited.folder).status == 0
    assert len(notes_of(audited)) == NOTES_MAX
