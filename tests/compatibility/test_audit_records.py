"""The golden bytes of the audit: its records, and the notes that wait in the metadata."""

from siltstone.metadata.changes import AuditNote, note_command, note_of
from siltstone.model.audit import AuditEvent, AuditKind, written_record

EVENT = AuditEvent(
    event=AuditKind.CONFIG,
    principal="User:ada",
    host="10.1.2.3",
    listener="SECURE",
    api="IncrementalAlterConfigs",
    operation="ALTER_CONFIGS",
    resource="topic t",
    before="retention.ms=1000",
    after="retention.ms=2000",
)
RECORD = (
    b'{"v":1,"time":"2023-11-14T22:13:20.123Z","node":3,"event":"config","outcome":"done","principal":"User:ada",'
    b'"host":"10.1.2.3","listener":"SECURE","api":"IncrementalAlterConfigs","operation":"ALTER_CONFIGS",'
    b'"resource":"topic t","before":"retention.ms=1000","after":"retention.ms=2000"}'
)
COUNTED = (
    b'{"v":1,"time":"1970-01-01T00:00:00.000Z","node":0,"event":"dropped","outcome":"dropped","count":7}'
)
NOTE = (
    b'{"time_ms":1700000000123,"event":{"event":"mode","outcome":"done","principal":"OS:ops","host":"desk",'
    b'"listener":"","api":"siltstone","operation":"","resource":"authorization","rule":"","before":"off",'
    b'"after":"on"}}'
)


def test_au03_a_record_has_these_bytes() -> None:
    assert written_record(EVENT, 1_700_000_000_123, 3) == RECORD
    dropped = AuditEvent(event=AuditKind.DROPPED, outcome="dropped")
    assert written_record(dropped, 0, 0, count=7) == COUNTED


def test_au03_a_note_has_these_bytes() -> None:
    event = AuditEvent(
        event=AuditKind.MODE, principal="OS:ops", host="desk", api="siltstone", resource="authorization",
        before="off", after="on",
    )  # fmt: skip
    note = AuditNote(1_700_000_000_123, event)
    command = note_command("0a", note)
    assert (command.key, command.value) == ("audit-note/0a", NOTE)
    assert note_of(NOTE) == note
    assert note_of(NOTE.replace(b'{"time_ms"', b'{"later":1,"time_ms"')) == note
