"""``siltstone consume TOPIC --group NAME``: prints records as a member of a consumer group."""

import click

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_groups, complete_topics
from siltstone.cli.consume.consuming import GroupConsuming
from siltstone.cli.consume.held_signals import HeldSignals
from siltstone.cli.consume.run import ConsumeParts, ConsumeRun, ConsumeSettings
from siltstone.cli.consume.sharing import ShareConsuming
from siltstone.cli.failures import INTERRUPTED, Failure
from siltstone.cli.output import remark_at_a_terminal, remarks
from siltstone.cli.tail.filters import Matches
from siltstone.cli.tail.formats import Writer
from siltstone.cli.tail.record_options import record_options
from siltstone.cli.tail.sink import ReaderGone
from siltstone.kafka_client.topics import find_topic

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"


def _refuse_options_of_consumers(*, from_beginning: bool, until_end: bool) -> None:
    if from_beginning:
        raise click.UsageError(
            "a share group begins where its configuration share.auto.offset.reset says: set it to earliest by "
            "kafka-configs --entity-type groups, or reset the group by siltstone groups reset, and leave out "
            "--from-beginning"
        )
    if until_end:
        raise click.UsageError(
            "a share group has no end that one member could see, since others may release records: use -n N instead of "
            "--until-end"
        )


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
    help="How to join the group: a member of it assigns the partitions, or the coordinator does (consumer, KIP-848), "
    "or members share the records, not the partitions (share, KIP-932).",
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

    With --protocol share, each record that was shown is accepted, and what was not shown is released.

    With --grep or --where, -n counts the records that match, and the others count as printed: the group does not read
    them again.
    """
    if protocol == SHARE:
        _refuse_options_of_consumers(from_beginning=from_beginning, until_end=until_end)
    signals = HeldSignals()
    settings = ConsumeSettings(
        topic=topic, group_id=group_id, from_beginning=from_beginning, until_end=until_end, limit=limit,
        matches=matches, is_coordinated=protocol == CONSUMER,
    )  # fmt: skip
    with signals.installed(), choice.open() as cluster:
        find_topic(cluster, topic)
        try:
            read: type[ConsumeRun] = ShareConsuming if protocol == SHARE else GroupConsuming
            consuming = read(
                ConsumeParts(
                    cluster=cluster, settings=settings, write=write, signals=signals, on_remark=_remark
                )
            )
            consuming.run()
            if not consuming.records_read:
                remark_at_a_terminal(f"Group {group_id} has read {topic} to its end: there is nothing new.")
        except ReaderGone:
            return
        except KeyboardInterrupt as interrupted:
            raise Failure(INTERRUPTED) from interrupted


def _remark(text: str) -> None:
    remarks().print(text, style="yellow", markup=False, soft_wrap=True)
