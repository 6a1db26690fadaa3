"""``siltstone topics move TOPIC[:P,...] ... --to NODE``: moves partitions to another node."""

from collections.abc import Sequence

import click

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_topics
from siltstone.cli.output import print_json, results
from siltstone.cli.words import counted
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.reassignments import move_partitions, still_moving
from siltstone.kafka_client.topics import find_topic, partitions_of
from siltstone.model.errors import InvalidRequest, Unavailable

MOVE_LOOK_INTERVAL_MS = 100
WAIT_MS_MAX = 60_000
"""A move takes less than a second. A move that takes a minute waits for the bucket or for a node."""


NODE_ID_MAX = 2**31 - 1


class PartitionsUnclear(InvalidRequest):
    """What follows the colon of TOPIC:P,... is not a list of partition numbers."""


class StillMoving(Unavailable):
    """The moves were recorded, and some have not ended after a minute."""


@click.command()
@click.argument("names", metavar="TOPIC[:P,...]...", nargs=-1, required=True, shell_complete=complete_topics)
@click.option(
    "--to", "node_id", type=click.IntRange(0, NODE_ID_MAX), required=True, metavar="NODE",
    help="Number of the node.",
)  # fmt: skip
@cluster_options
def move(choice: ClusterChoice, names: tuple[str, ...], node_id: int, as_json: bool) -> None:
    """Move all partitions of topics, or those named after a colon, to a node.

    No record is copied, because the objects stay in the bucket: the present leader uploads the records that only it
    has, and the other node becomes the leader. The command returns when all partitions are moved. Partitions that the
    node leads already stay there.
    """
    with choice.open() as cluster:
        leaders: dict[TopicPartition, int] = {}
        for name in dict.fromkeys(names):
            leaders |= _leaders(cluster, name)
        partitions = list(leaders)
        move_partitions(cluster, partitions, node_id)
        _wait(cluster, partitions)
    if as_json:
        moved = [str(each) for each in partitions if leaders[each] != node_id]
        print_json({"to": node_id, "partitions": [str(each) for each in partitions], "moved": moved})
    else:
        results().print(_in_words(node_id, list(leaders.values())))


def _in_words(node_id: int, leaders: Sequence[int]) -> str:
    """``leaders``: those of the partitions before the move."""
    there = leaders.count(node_id)
    if there == len(leaders):
        return f"Node {node_id} leads {'it' if there == 1 else f'all {there}'} already: nothing was moved."
    moved = f"{counted(len(leaders) - there, 'partition')} moved to node {node_id}"
    return f"{moved}, which led {there} already." if there else f"{moved}."


def _leaders(cluster: Cluster, text: str) -> dict[TopicPartition, int]:
    """Returns the present leaders of the named partitions. Raises PartitionsUnclear, TopicUnknown,
    PartitionUnknown."""
    name, colon, listed = text.partition(":")
    numbers = listed.split(",") if colon else []
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise PartitionsUnclear(f"{text} does not name partitions: write {name}:0,1 or {name}")
    topic = find_topic(cluster, name)
    leaders = {each.partition_index: each.leader_id for each in topic.partitions}
    return {each: leaders[each.partition] for each in partitions_of(topic, map(int, numbers))}


def _wait(cluster: Cluster, partitions: Sequence[TopicPartition]) -> None:
    """Raises StillMoving."""
    deadline_ms = cluster.clock.monotonic_ms() + WAIT_MS_MAX
    while left := still_moving(cluster, partitions):
        if cluster.clock.monotonic_ms() > deadline_ms:
            raise StillMoving(
                f"{counted(len(left), 'partition')} did not arrive in a minute; the move continues by itself; see the "
                f"log of the node that leads {left[0]}"
            )
        cluster.clock.block_ms(MOVE_LOOK_INTERVAL_MS)
