"""``siltstone topics delete NAME …``: deletes topics."""

import click

from siltstone.cli.asking import confirm, tell_deleted, yes_option
from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_topics
from siltstone.cli.topics.listing import led_partitions
from siltstone.cli.words import counted
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.offsets import ends_of
from siltstone.kafka_client.topics import delete_topics, find_topics


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_topics)
@yes_option
@cluster_options
def delete(choice: ClusterChoice, names: tuple[str, ...], is_answered: bool, as_json: bool) -> None:
    """Delete topics and all their records, permanently.

    Asks for confirmation at a terminal; elsewhere --yes is required. If one of the topics does not exist, none is
    deleted.
    """
    names = tuple(dict.fromkeys(names))
    with choice.open() as cluster:
        lost = _records(cluster, names)
        confirm(f"Delete {', '.join(names)} with {counted(lost, 'record')}?", is_answered=is_answered)
        refused = delete_topics(cluster, names)
    tell_deleted(names, refused, as_json)


def _records(cluster: Cluster, names: tuple[str, ...]) -> int:
    """Returns the number of records in all partitions that have a leader; an upper bound where compaction has left
    gaps."""
    topics = find_topics(cluster, names)
    return sum(
        ends.span for ends in ends_of(cluster, [k for t in topics for k in led_partitions(t)]).values()
    )
