"""Decisions about keys (put, remove), about the features that all nodes have, and about sequences, whose numbers are
each given out once (TakeNumbers)."""

from siltstone.metadata.commands import PutKey, RemoveKey, TakeNumbers
from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.features import PromiseFeature, every_node_has, final_level, key_of_final
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import KeyRemoved, KeySet, NumbersTaken
from siltstone.metadata.refusals import CommandMalformed

_NUMBER_MAX = 2**63 - 1


def decide_put_key(view: ImageView, command: PutKey, now_ms: int) -> Decision[bytes]:
    standing = view.keys.get(command.key)
    if standing is not None and (standing == command.value or not command.overwrite):
        return Decision((), standing)
    return Decision((KeySet(command.key, command.value),), command.value)


def decide_remove_key(view: ImageView, command: RemoveKey, now_ms: int) -> Decision[None]:
    return Decision((KeyRemoved(command.key),) if command.key in view.keys else (), None)


def decide_promise_feature(view: ImageView, command: PromiseFeature, now_ms: int) -> Decision[int]:
    standing = final_level(view, command.name)
    if standing >= command.level or not every_node_has(view, command):
        return Decision((), standing)
    return Decision((KeySet(key_of_final(command.name), b"%d" % command.level),), command.level)


def decide_take_numbers(view: ImageView, command: TakeNumbers, now_ms: int) -> Decision[int]:
    """Not idempotent: a caller that lost the answer takes other numbers; there are 2**63."""
    if command.count < 1:
        raise CommandMalformed(
            f"{command.count} numbers of sequence {command.sequence!r} cannot be taken; take at least one"
        )
    first = view.sequences.get(command.sequence, 0)
    next_number = first + command.count
    if next_number > _NUMBER_MAX:
        raise CommandMalformed(
            f"sequence {command.sequence!r} has less than {command.count} numbers left; take fewer"
        )
    return Decision((NumbersTaken(command.sequence, next_number),), first)
