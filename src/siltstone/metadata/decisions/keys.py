"""PutKey and RemoveKey."""

from siltstone.metadata.commands import PutKey, RemoveKey
from siltstone.metadata.decisions.decision import Decision
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import KeyRemoved, KeySet


def decide_put_key(view: ImageView, command: PutKey, now_ms: int) -> Decision[bytes]:
    standing = view.keys.get(command.key)
    if standing is not None and (standing == command.value or not command.overwrite):
        return Decision((), standing)
    return Decision((KeySet(command.key, command.value),), command.value)


def decide_remove_key(view: ImageView, command: RemoveKey, now_ms: int) -> Decision[None]:
    return Decision((KeyRemoved(command.key),) if command.key in view.keys else (), None)
