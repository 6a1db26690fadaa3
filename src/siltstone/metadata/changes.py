"""What a command changes, as events of the audit: a pure function of the command and the images before and after it.

A command that changed nothing, because it was repeated, is no event. A command without a row is none either: nodes and
jobs execute those by themselves. Texts name no secret: of a password, mechanism and rounds.

The commands of ``siltstone`` change the metadata without a broker. They leave their events there as *notes*, keys that
begin with NOTE_PREFIX, when the store has a topic of the audit; a broker writes them to the topic, and then removes
them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from siltstone.metadata.acls import CreateAcls, DeleteAcls, SetAuthorization
from siltstone.metadata.buckets import AddBucket, RemoveBucket, SetBucketState, SetWriteStrategy
from siltstone.metadata.commands import (
    AddPartitions,
    AlterTopicConfigs,
    CancelJob,
    Command,
    CreateTopic,
    DeleteTopic,
    DrainNode,
    FenceNode,
    GiveUpLog,
    MovePartitions,
    PutKey,
    RemoveKey,
    UnregisterNode,
)
from siltstone.metadata.copies import AcceptLoss, GiveUpBucket
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import ImageView, MetadataImage
from siltstone.metadata.levels import RaiseLevel
from siltstone.metadata.node_address import NODE_LISTENER_KEY
from siltstone.metadata.quotas import AlterQuotas
from siltstone.metadata.users import AlterUsers, EndSessions, ScramUser
from siltstone.model.acls import AclBinding, Authorization
from siltstone.model.audit import (
    NAME_CHARACTERS,
    TEXT_CHARACTERS,
    AuditEvent,
    AuditKind,
    AuditNoteDamaged,
    shortened,
)
from siltstone.model.quotas import entity_key, shown_entity

NOTE_PREFIX = "audit-note/"

NOTES_MAX = 1_000
"""Notes that wait in the metadata, 4 KiB each at most: a store whose brokers are stopped, or have no audit, keeps no
more."""


def changes_of(command: Command[Any], before: MetadataImage, after: MetadataImage) -> list[AuditEvent]:
    """Returns what the command has changed."""
    of_command = _CHANGES.get(type(command))
    return [] if of_command is None else [_bounded(each) for each in of_command(command, before, after)]


def _bounded(event: AuditEvent) -> AuditEvent:
    return msgspec.structs.replace(
        event,
        resource=shortened(event.resource, NAME_CHARACTERS),
        before=shortened(event.before, TEXT_CHARACTERS),
        after=shortened(event.after, TEXT_CHARACTERS),
    )


# -- topics ----------------------------------------------------------------------------------------------------------


def _shape(topic: TopicMetadata | None) -> str:
    if topic is None:
        return ""
    return ", ".join((f"partitions={len(topic.partitions)}", *_written(topic.configs)))


def _written(configs: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(configs.items())]


def _created(command: CreateTopic, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    if command.topic_id not in before.topics and command.topic_id in after.topics:
        yield AuditEvent(
            event=AuditKind.TOPIC,
            operation="CREATE",
            resource=f"topic {command.name}",
            after=_shape(after.topics[command.topic_id]),
        )


def _deleted(command: DeleteTopic, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    if (topic := before.topics.get(command.topic_id)) is not None:
        yield AuditEvent(
            event=AuditKind.TOPIC,
            operation="DELETE",
            resource=f"topic {topic.name}",
            before=_shape(topic),
        )


def _extended(command: AddPartitions, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    standing, topic = before.topics.get(command.topic_id), after.topics.get(command.topic_id)
    if topic is not None and standing is not None:
        yield AuditEvent(
            event=AuditKind.TOPIC,
            operation="ALTER",
            resource=f"topic {topic.name}",
            before=f"partitions={len(standing.partitions)}",
            after=f"partitions={len(topic.partitions)}",
        )


def _configured(command: AlterTopicConfigs, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    standing, topic = before.topics.get(command.topic_id), after.topics.get(command.topic_id)
    if topic is None or standing is None:
        return
    old, new = standing.configs, topic.configs
    changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    if changed:
        yield AuditEvent(
            event=AuditKind.CONFIG,
            operation="ALTER_CONFIGS",
            resource=f"topic {topic.name}",
            before=", ".join(_written({key: old[key] for key in changed & old.keys()})),
            after=", ".join(_written({key: new[key] for key in changed & new.keys()})),
        )


def _moved(command: MovePartitions, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    for topic_id, index, target in command.targets:
        topic = after.topics.get(topic_id)
        if topic is not None and topic_id in before.topics:
            yield AuditEvent(
                event=AuditKind.TOPIC,
                operation="MOVE",
                resource=f"topic {topic.name}",
                before=f"partition={index}, leader={before.topics[topic_id].partitions[index].leader}",
                after=f"partition={index}, leader={target}",
            )


# -- users, rights, quotas -------------------------------------------------------------------------------------------


def _credentials(user: ScramUser | None) -> str:
    if user is None:
        return ""
    return ", ".join(f"{each.mechanism.written} rounds={each.rounds}" for each in user.credentials)


def _users(command: AlterUsers, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    for name in sorted({name for name, _ in (*command.removals, *command.credentials)}):
        old, new = before.users.get(name), after.users.get(name)
        if old == new:
            continue
        yield AuditEvent(
            event=AuditKind.USER,
            operation="CREATE" if old is None else "DELETE" if new is None else "ALTER",
            resource=f"user {name}",
            before=_credentials(old),
            after=_credentials(new),
        )


def _sessions_ended(command: EndSessions, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    yield AuditEvent(event=AuditKind.SESSION_END, resource=f"principal {command.principal}")


def _acl_event(binding: AclBinding, operation: str) -> AuditEvent:
    text = str(binding)
    return AuditEvent(
        event=AuditKind.ACL,
        operation=operation,
        resource=f"{binding.resource_type.name.lower()} {binding.name}",
        before=text if operation == "DELETE" else "",
        after=text if operation == "CREATE" else "",
    )


def _acls_created(command: CreateAcls, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    for binding in dict.fromkeys(command.bindings):
        if binding.key not in before.acls:
            yield _acl_event(binding, "CREATE")


def _acls_deleted(command: DeleteAcls, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    for binding in dict.fromkeys(command.bindings):
        if binding.key in before.acls:
            yield _acl_event(binding, "DELETE")


def _mode(command: SetAuthorization, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    if before.authorization != after.authorization:
        yield AuditEvent(
            event=AuditKind.MODE,
            resource="authorization",
            before=_authorization(before.authorization),
            after=_authorization(after.authorization),
        )


def _level(command: RaiseLevel, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    if before.level != after.level:
        yield AuditEvent(
            event=AuditKind.MODE,
            operation="RAISE",
            resource="level",
            before=str(before.level.number),
            after=f"{after.level.number}, by siltstone {after.level.program}",
        )


def _authorization(standing: Authorization) -> str:
    return f"{standing.mode}, super users: {' '.join(standing.super_users) or 'none'}"


def _quotas(command: AlterQuotas, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    for change in command.changes:
        key = entity_key(change.entity)
        old, new = _limits(before, key), _limits(after, key)
        if old != new:
            yield AuditEvent(
                event=AuditKind.QUOTA,
                operation="ALTER",
                resource=shown_entity(change.entity),
                before=old,
                after=new,
            )


def _limits(image: ImageView, key: str) -> str:
    quota = image.quotas.get(key)
    return "" if quota is None else ", ".join(f"{limit}={value:g}" for limit, value in quota.limits)


# -- nodes, buckets, jobs --------------------------------------------------------------------------------------------


def _of_node(operation: str) -> Callable[[Any, ImageView, ImageView], Iterator[AuditEvent]]:
    def event(command: Any, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
        yield AuditEvent(event=AuditKind.NODE, operation=operation, resource=f"node {command.node_id}")

    return event


def _drained(command: DrainNode, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    operation = "DRAIN" if command.is_draining else "RESUME"
    yield AuditEvent(event=AuditKind.NODE, operation=operation, resource=f"node {command.node_id}")


def _bucket(operation: str) -> Callable[[Any, ImageView, ImageView], Iterator[AuditEvent]]:
    def event(command: Any, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
        bucket_id = getattr(command, "bucket_id", None)
        state = getattr(command, "state", None)
        yield AuditEvent(
            event=AuditKind.BUCKET,
            operation=operation,
            resource="buckets" if bucket_id is None else f"bucket {bucket_id}",
            after="" if state is None else str(getattr(state, "name", state)).lower(),
        )

    return event


def _key(command: PutKey | RemoveKey, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    """Most keys are of nodes and jobs; one says by which listener the nodes reach each other."""
    old, new = before.keys.get(NODE_LISTENER_KEY, b""), after.keys.get(NODE_LISTENER_KEY, b"")
    if command.key == NODE_LISTENER_KEY and old != new:
        yield AuditEvent(
            event=AuditKind.NODE,
            operation="SET_LISTENER",
            resource="listener of the nodes",
            before=old.decode("utf-8", "replace"),
            after=new.decode("utf-8", "replace"),
        )


def _job_cancelled(command: CancelJob, before: ImageView, after: ImageView) -> Iterator[AuditEvent]:
    if (job := before.jobs.get(command.job_id)) is not None:
        yield AuditEvent(
            event=AuditKind.MAINTENANCE,
            outcome="cancelled",
            operation=job.kind.upper(),
            resource=f"job {job.job_id}",
            after=command.report,
        )


_CHANGES: Mapping[type[Command[Any]], Callable[[Any, Any, Any], Iterator[AuditEvent]]] = {
    CreateTopic: _created,
    DeleteTopic: _deleted,
    AddPartitions: _extended,
    AlterTopicConfigs: _configured,
    MovePartitions: _moved,
    AlterUsers: _users,
    EndSessions: _sessions_ended,
    CreateAcls: _acls_created,
    DeleteAcls: _acls_deleted,
    SetAuthorization: _mode,
    RaiseLevel: _level,
    AlterQuotas: _quotas,
    DrainNode: _drained,
    FenceNode: _of_node("FENCE"),
    UnregisterNode: _of_node("UNREGISTER"),
    GiveUpLog: _of_node("GIVE_UP_LOG"),
    AddBucket: _bucket("ADD"),
    RemoveBucket: _bucket("REMOVE"),
    SetBucketState: _bucket("SET_STATE"),
    SetWriteStrategy: _bucket("SET_WRITE_STRATEGY"),
    AcceptLoss: _bucket("ACCEPT_LOSS"),
    GiveUpBucket: _bucket("GIVE_UP"),
    PutKey: _key,
    RemoveKey: _key,
    CancelJob: _job_cancelled,
}


# -- notes -----------------------------------------------------------------------------------------------------------


class AuditNote(msgspec.Struct, frozen=True):
    """An event that no broker has seen, and when it happened, in ms since 1970."""

    time_ms: int
    event: AuditEvent


def note_command(token: str, note: AuditNote) -> PutKey:
    """``token`` is random: no other note has it."""
    return PutKey(f"{NOTE_PREFIX}{token}", msgspec.json.encode(note))


def note_of(value: bytes) -> AuditNote:
    """Raises AuditNoteDamaged."""
    try:
        return msgspec.json.decode(value, type=AuditNote)
    except (msgspec.DecodeError, UnicodeDecodeError) as failure:
        raise AuditNoteDamaged(
            f"a note for the audit cannot be read ({failure}): it is left out"
        ) from failure


def waiting_notes(keys: Mapping[str, bytes]) -> list[str]:
    """Returns the keys of the notes that wait for a broker, oldest last known first by their names."""
    return sorted(key for key in keys if key.startswith(NOTE_PREFIX))
