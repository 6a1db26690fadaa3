"""``siltstone consume TOPIC --group NAME``: prints records as a member of a consumer group."""

import click

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_groups, complete_topics
from siltstone.cli.consume.consuming import ConsumeSettings, GroupConsuming
from siltstone.cli.consume.held_signals import HeldSignals
from siltstone.cli.failures import INTERRUPTED, Failure
from siltstone.cli.output import remark_at_a_terminal, remarks
from siltstone.cli.tail.filters import Matches
from siltstone.cli.tail.formats import Writer
from siltstone.cli.tail.record_options import record_options
from siltstone.cli.tail.sink import ReaderGone
from siltstone.kafka_client.topics import find_topic

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"
NOT_SHARE = (
    "siltstone consume is no member of share groups. Use confluent-kafka's ShareConsumer, Java's "
    "KafkaShareConsumer or kafka-console-share-consumer; siltstone groups shows and resets such a group, and "
    "siltstone tail shows the records without a group."
)


def _not_share(context: click.Context, parameter: click.Parameter, protocol: str) -> str:
    if protocol == SHARE:
        raise click.UsageError(NOT_SHARE, context)
    return protocol


@click.command()
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.option(
    "-g",
    "--group",
    "group_id",
    metavar="NAME",
    required=True,
    shell_complete=complete_groups,
    help="The consumer group, whose members share the partitions; made if it does not exist.",
)
@click.option(
    "--protocol",
    type=click.Choice([CLASSIC, CONSUMER, SHARE]),
    default=CLASSIC,
    show_default=True,
    callback=_not_share,
    help="How to join the group: a member of it assigns the partitions, or the coordinator does (consumer, KIP-848). "
    "share is refused, and the error says what to use instead.",
)
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Begin a partition for which the group has committed no offset at its beginning instead of at its end.",
)
@click.option(
    "-n", "--limit", "--max-messages", "limit", type=click.IntRange(min=1), metavar="N",
    help="Stop after N records.",
)  # fmt: skip
@click.option(
    "-e",
    "--until-end",
    is_flag=True,
    help="Stop at the end that the topic had when this member got its partitions.",
)
@record_options
@cluster_options
def consume(
    choice: ClusterChoice,
    topic: str,
    group_id: str,
    protocol: str,
    from_beginning: bool,
    limit: int | None,
    until_end: bool,
    write: Writer,
    matches: Matches | None,
) -> None:
    """Show records of a topic as a member of a consumer group, and commit what was shown.

    The group continues where it has committed. Offsets are committed every second and at the end: after Ctrl-C, or
    after -n records, exactly what was printed is committed. What a pipe has taken counts as printed, also if its reader
    shows less of it: use -n N, not head. siltstone tail shows records without a group.

    With --grep or --where, -n counts the records that match, and the others count as printed: the group does not read
    them again.
    """
    signals = HeldSignals()
    settings = ConsumeSettings(
        topic=topic, group_id=group_id, from_beginning=from_beginning, until_end=until_end, limit=limit,
        matches=matches, is_coordinated=protocol == CONSUMER,
    )  # fmt: skip
    with signals.installed(), choice.open() as cluster:
        find_topic(cluster, topic)
        try:
            consuming = GroupConsuming(cluster, settings, write, signals, _remark)
            consuming.run()
            if not consuming.records_read:
                remark_at_a_terminal(f"Group {group_id} has read {topic} to its end: there is nothing new.")
        except ReaderGone:
            return
        except KeyboardInterrupt as interrupted:
            raise Failure(INTERRUPTED) from interrupted


def _remark(text: str) -> None:
    remarks().print(text, style="yellow", markup=False, soft_wrap=True)
