"""``siltstone topics configure NAME KEY=VALUE …``: changes configurations of a topic, or adds partitions.

``parse_assignments`` reads the assignments, also for ``siltstone topics create``. Values may have units as in settings:
``retention.ms=7d``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import click
from rich.console import RenderableType

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_topics
from siltstone.cli.output import print_json, remarks, results, table
from siltstone.cli.words import cell
from siltstone.kafka_client.configs import KnownConfig, change_configs, topic_configs
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_client.topics import add_partitions, find_topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import InvalidRequest
from siltstone.offline.opening.topic_assignments import assignment_hint, forgotten_unit, without_effect
from siltstone.offline.opening.values import topic_config_text
from siltstone.topic_configs.rows import TABLE

PARTITIONS_MAX = 2**31 - 1
"""The protocol has 32 bits for the number; a broker may accept fewer partitions."""


class NoAssignment(InvalidRequest):
    """The text of an assignment is not NAME=VALUE."""


def parse_assignments(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parses the NAME=VALUE texts of ``option``: → value by name. Raises NoAssignment."""
    assigned: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise NoAssignment(f"{option} {text!r}: write NAME=VALUE, such as retention.ms=7d")
        assigned[name.strip()] = topic_config_text(name.strip(), value.strip())
    return assigned


@contextmanager
def refusals_explained(assigned: Mapping[str, str]) -> Iterator[None]:
    """Adds to a broker's refusal of a configuration the most similar name, or how its value is written."""
    try:
        yield
    except KafkaRefusal as refusal:
        is_suggested = "did you mean" in str(refusal)  # by the broker
        named = {name: value for name, value in assigned.items() if name in TABLE or not is_suggested}
        hints = [hint for name, value in named.items() if (hint := assignment_hint(name, value))]
        if refusal.code is not ErrorCode.INVALID_CONFIG or not hints:
            raise
        raise KafkaRefusal(refusal.code, f"{str(refusal).rstrip('.')}: {'; '.join(hints)}") from refusal


def note_forgotten_units(texts: Iterable[str]) -> None:
    """Notes on stderr each NAME=VALUE whose number is so small that its unit was probably forgotten."""
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if note := forgotten_unit(name, value):
            remarks().print(note, markup=False)


def note_assignments(texts: Sequence[str]) -> None:
    """Notes on stderr what is accepted, and was probably meant otherwise."""
    note_forgotten_units(texts)
    _note_without_effect(texts)


def _note_without_effect(texts: Iterable[str]) -> None:
    """Notes each configuration without an effect once."""
    given = {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in texts)}
    for name, value in given.items():
        if note := without_effect(name, value):
            remarks().print(note, markup=False)


PARTITIONS = "partitions"


class NothingToChange(InvalidRequest):
    """Neither a configuration nor a number of partitions was given."""


@click.command()
@click.argument("name", metavar="NAME", shell_complete=complete_topics)
@click.argument("assignments", metavar="[KEY=VALUE]...", nargs=-1)
@click.option(
    "--remove",
    multiple=True,
    metavar="KEY",
    help="Reset this configuration to the value of the broker; repeatable.",
)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1, PARTITIONS_MAX),
    metavar="N",
    help="Add partitions until there are N.",
)
@click.option("--dry-run", is_flag=True, help="Only let the broker check the change.")
@cluster_options
def configure(
    choice: ClusterChoice,
    name: str,
    assignments: tuple[str, ...],
    remove: tuple[str, ...],
    partitions: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Change configurations of a topic, or add partitions.

    For instance: siltstone topics configure flights retention.ms=7d segment.bytes=64MiB. Either all configurations
    change, or none. After partitions were added, new records of a key may go to another partition than its old ones.
    """
    assigned = parse_assignments(assignments, "configure")
    if not assigned and not remove and partitions is None:
        raise NothingToChange(
            "nothing to change: give KEY=VALUE, --remove KEY or --partitions N; "
            f"siltstone topics describe {name} --all lists all configurations"
        )
    touched = [*assigned, *remove]
    with choice.open() as cluster:
        topic = find_topic(cluster, name)
        before = topic_configs(cluster, [name])[name]
        if touched:
            with refusals_explained(assigned | dict.fromkeys(remove, "0")):
                change_configs(
                    cluster, name, assigned, remove, validate_only=dry_run or partitions is not None
                )
        if partitions is not None:
            add_partitions(cluster, name, partitions, validate_only=dry_run)
        if touched and partitions is not None and not dry_run:
            change_configs(cluster, name, assigned, remove)
        after = before if dry_run else topic_configs(cluster, [name])[name]
    changes = _changes(touched, before, after, assigned if dry_run else {})
    if partitions is not None:
        changes[PARTITIONS] = (str(len(topic.partitions)), str(partitions))
    if as_json:
        rows = [{"name": key, "before": old, "after": new} for key, (old, new) in changes.items()]
        print_json({"topic": name, "dry_run": dry_run, "changes": rows})
        return
    results().print(_changes_table(changes))
    note_assignments(assignments)
    if dry_run:
        remarks().print("The broker would accept the change; nothing was changed.")


def _changes(
    names: Iterable[str],
    before: Mapping[str, KnownConfig],
    after: Mapping[str, KnownConfig],
    expected: Mapping[str, str],
) -> dict[str, tuple[str | None, str | None]]:
    """Returns name → (before, after). ``expected``: the values that a dry run would have set."""
    return {
        name: (_value(before, name), expected[name] if name in expected else _value(after, name))
        for name in names
    }


def _value(configs: Mapping[str, KnownConfig], name: str) -> str | None:
    return configs[name].value if name in configs else None


def _changes_table(changes: Mapping[str, tuple[str | None, str | None]]) -> RenderableType:
    shown = table("configuration", "before", "after")
    for name, (before, after) in changes.items():
        shown.add_row(cell(name), cell(before or "-"), cell(after or "-"))
    return shown
