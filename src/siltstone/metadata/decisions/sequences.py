"""TakeNumbers: numbers that are given out once."""

from siltstone.metadata.commands import TakeNumbers
from siltstone.metadata.decisions.decision import Decision
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import NumbersTaken
from siltstone.metadata.refusals import CommandMalformed

_NUMBER_MAX = 2**63 - 1


def decide_take_numbers(view: ImageView, command: TakeNumbers, now_ms: int) -> Decision[int]:
    """Whoever lost the answer takes others: numbers are many."""
    if command.count < 1:
        raise CommandMalformed(f"{command.count} numbers of {command.sequence!r}; take at least one")
    first = view.sequences.get(command.sequence, 0)
    next_number = first + command.count
    if next_number > _NUMBER_MAX:
        raise CommandMalformed(f"{command.sequence!r} has no {command.count} numbers left; take fewer")
    return Decision((NumbersTaken(command.sequence, next_number),), first)
