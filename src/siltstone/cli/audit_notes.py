"""Leaves a note for the audit when a command has changed the metadata without a broker.

Where the store has a topic of the audit, the note goes to the metadata after the change, and the next broker with
``broker.audit`` writes it to the topic. The user of the operating system stands for who did it. A person
who may write the metadata could also leave no note.
"""

from typing import Any

from msgspec.structs import replace

from siltstone.cli.output import remarks
from siltstone.metadata.changes import NOTES_MAX, AuditNote, changes_of, note_command, waiting_notes
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import Command
from siltstone.metadata.image import MetadataImage
from siltstone.model.audit import AUDIT_TOPIC, shortened
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.randomness import random_token, system_randomness


def leave_notes(client: MetadataClient) -> None:
    """Leaves notes of what this client changes from now on."""

    def executed(command: Command[Any], before: MetadataImage, after: MetadataImage) -> None:
        if AUDIT_TOPIC not in after.topic_ids or not (events := changes_of(command, before, after)):
            return
        import platform  # noqa: PLC0415  a command that changes nothing need not load it

        rng = system_randomness()
        try:
            for event in events[: max(0, NOTES_MAX - len(waiting_notes(after.keys)))]:
                named = replace(event, principal=_operator(), host=platform.node(), api="siltstone")
                client.execute(note_command(random_token(rng), AuditNote(client.now_ms(), named)))
        except SiltstoneError as trouble:
            remarks().print(
                f"The change is made, and there is no note of it for the audit: {trouble}",
                style="yellow", markup=False, soft_wrap=True,
            )  # fmt: skip

    client.add_execution_listener(executed)


def _operator() -> str:
    import getpass  # noqa: PLC0415  as above

    try:
        return shortened(f"OS:{getpass.getuser()}")
    except (OSError, KeyError):  # a container whose user has no name
        return "OS:unknown"
