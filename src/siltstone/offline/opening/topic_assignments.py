"""What to say about a configuration of a topic that a person gives: how a refused one is written, and what was probably
meant otherwise, from values alone; the commands and the console say the same."""

from siltstone.model.errors import did_you_mean
from siltstone.offline.opening.values import Unit
from siltstone.topic_configs.rows import TABLE, Effect

FORGOTTEN = {
    Unit.MILLISECONDS: (1_000, "ms", "7d, 12h or 30s"),
    Unit.BYTES: (1_024, "bytes", "64MiB or 1GiB"),
}
"""Unit → the number below which somebody probably forgot a unit, the unit's word, and values that have one."""


def unit_of(name: str) -> Unit:
    return Unit.of(name.replace(".", "_"))


def assignment_hint(name: str, value: str) -> str | None:
    """Returns how a configuration that was refused is written; None if there is nothing to say."""
    if name not in TABLE:
        return did_you_mean(
            name, TABLE, "siltstone topics describe TOPIC --all lists all names", suggestions_max=1
        )
    example = {Unit.MILLISECONDS: "7d or 604800000", Unit.BYTES: "64MiB or 67108864"}.get(unit_of(name))
    is_number = value.removeprefix("-").isdigit()
    return None if example is None or is_number else f"write {name}={example}"


def forgotten_unit(name: str, value: str) -> str | None:
    """Returns a note about a number that is so small that its unit was probably forgotten."""
    least, word, examples = FORGOTTEN.get(unit_of(name), (0, "", ""))
    if name in TABLE and value.isdigit() and 0 < int(value) < least:
        return f"{name}={value} is {value} {word}: a unit can be given, as in {examples}"
    return None


def without_effect(name: str, value: str) -> str | None:
    """Returns a note about a configuration of Kafka that Siltstone keeps, and that has no effect on it. The broker may
    be another one, so the note names Siltstone."""
    row = TABLE.get(name)
    if row is not None and row.effect is Effect.KEPT and value != row.default:
        return f"Siltstone keeps {name}, which has no effect on it: {row.documentation}"
    return None
