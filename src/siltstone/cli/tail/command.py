"""``siltstone tail TOPIC``: shows records of a topic as they arrive."""

from collections.abc import Iterator
from itertools import chain

import click
import msgspec

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_topics
from siltstone.cli.failures import INTERRUPTED, Failure
from siltstone.cli.output import remark_at_a_terminal, remarks
from siltstone.cli.tail.filters import Matches, told_apart
from siltstone.cli.tail.formats import Writer
from siltstone.cli.tail.record_options import record_options
from siltstone.cli.tail.sink import ReaderGone, Sink
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.following import Following, Found
from siltstone.kafka_client.positions import Position, parse_position, resolve
from siltstone.kafka_client.topics import find_topic, partitions_of
from siltstone.model.errors import SiltstoneError

LAST_DEFAULT = 10
LOOKED_AT_MAX = 100_000
"""Records at the end of a topic among which the last that match are looked for: all of them are in memory."""
_FURTHER = 8


class TailSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``numbers``: partitions to read, empty for all. ``position``: where to begin; None for the last ``last``
    records."""

    topic: str
    numbers: tuple[int, ...]
    position: Position | None
    last: int
    until_end: bool
    limit: int | None


@click.command()
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.option(
    "-n",
    "--last",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Begin with the last N records of the topic [{LAST_DEFAULT}].",
)
@click.option(
    "-o",
    "--from",
    "from_",
    metavar="POSITION",
    help="Begin at earliest (beginning, start), latest (end), an offset, 2013-07-01T12:30, or 2h (ago).",
)
@click.option(
    "-e",
    "--until-end",
    is_flag=True,
    help="Stop at the current end of the topic instead of waiting for more.",
)
@click.option("-c", "--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@click.option(
    "-p",
    "--partition",
    "numbers",
    multiple=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Limit to this partition; repeatable.",
)
@record_options
@cluster_options
def tail(
    choice: ClusterChoice,
    topic: str,
    last: int | None,
    from_: str | None,
    until_end: bool,
    limit: int | None,
    numbers: tuple[int, ...],
    write: Writer,
    matches: Matches | None,
) -> None:
    """Show the last records of a topic, and new ones as they arrive.

    Ctrl-C stops it. Columns are separated by tabs; control characters are escaped, so each record is one line. Records
    of one partition are in order; records of different partitions are not ordered.

    With --grep or --where, -n and -c count the records that match.
    """
    if last is not None and from_ is not None:
        raise click.UsageError("--last and --from exclude each other: give one place to begin.")
    with choice.open() as cluster:
        position = None if from_ is None else parse_position(from_, "--from", cluster.clock.now_ms())
        settings = TailSettings(
            topic=topic, numbers=numbers, position=position, last=LAST_DEFAULT if last is None else last,
            until_end=until_end, limit=limit,
        )  # fmt: skip
        try:
            _show(settings, cluster, write, matches)
        except ReaderGone:
            return
        except KeyboardInterrupt as interrupted:
            raise Failure(INTERRUPTED) from interrupted


def _show(settings: TailSettings, cluster: Cluster, write: Writer, matches: Matches | None) -> None:
    """Writes the records to stdout; records that precede a failure, too. Raises ReaderGone, RecordsDamaged,
    KafkaRefusal, KafkaNotReady."""
    sink = Sink()
    try:
        for found in _found(settings, cluster, matches):
            if found is None:
                sink.flush()
            else:
                sink.write(write(*found))
    except SiltstoneError:
        sink.flush()
        raise
    sink.flush()


def _found(settings: TailSettings, cluster: Cluster, matches: Matches | None) -> Iterator[Found | None]:
    partitions = partitions_of(find_topic(cluster, settings.topic), settings.numbers)
    following = Following(cluster, _remark)
    last, positions, ends = _beginning(settings, cluster, partitions, following, matches)
    left = settings.limit
    if not last and not settings.until_end:
        _hint(settings)
    following_records = following.records(positions, ends if settings.until_end else None)
    shown = 0
    for found, is_shown in chain(((each, True) for each in last), told_apart(following_records, matches)):
        if found is not None and not is_shown:
            continue
        if left is not None and found is not None:
            left -= 1
        shown += found is not None
        yield found
        if left == 0:
            return
    if not shown:
        _say_why_nothing(settings, matches, max(ends.values(), default=0))


def _beginning(
    settings: TailSettings,
    cluster: Cluster,
    partitions: list[TopicPartition],
    following: Following,
    matches: Matches | None,
) -> tuple[list[Found], dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Returns the records to show first, and per partition the offset at which to continue and its current end."""
    if settings.position is None:
        last, ends = _last_that_match(settings.last, partitions, following, matches)
        return last, ends, ends
    resolved = resolve(cluster, partitions, settings.position)
    return (
        [],
        {key: where.offset for key, where in resolved.items()},
        {key: where.ends.end_offset for key, where in resolved.items()},
    )


def _last_that_match(
    count: int, partitions: list[TopicPartition], following: Following, matches: Matches | None
) -> tuple[list[Found], dict[TopicPartition, int]]:
    """Looks among ever more records at the end of the topic, up to LOOKED_AT_MAX."""
    looked_at = count
    while True:
        last, ends = following.last(partitions, looked_at)
        if matches is None or not count:
            return last, ends
        matching = [each for each, is_one in told_apart(last, matches) if each is not None and is_one]
        if len(matching) >= count or len(last) < looked_at:
            return matching[-count:], ends
        if looked_at >= LOOKED_AT_MAX:
            _remark(f"only the last {len(last):,} records were looked at: --from earliest looks at all")
            return matching, ends
        looked_at = min(looked_at * _FURTHER, max(looked_at, LOOKED_AT_MAX))


def _remark(text: str) -> None:
    remarks().print(text, style="yellow", markup=False, soft_wrap=True)


def _say_why_nothing(settings: TailSettings, matches: Matches | None, end: int) -> None:
    """Says at a terminal why the end was reached without a record, unless none was asked for."""
    topic = settings.topic
    if settings.position is None and not settings.last:
        return
    if end and matches is not None:
        remark_at_a_terminal(f"No record of {topic} matches.")
    elif end and settings.position is not None:
        remark_at_a_terminal(
            f"{topic} ends at {end:,}: no record is at or after the position that was given."
        )
    else:
        remark_at_a_terminal(f"{topic} has no records.")


def _hint(settings: TailSettings) -> None:
    """Says at a terminal that the command is waiting."""
    remark_at_a_terminal(f"Waiting for records of {settings.topic}; Ctrl-C stops.")
