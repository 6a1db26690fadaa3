"""Brokers with their logs in the bucket: one dies, and clients continue at the others. One thread, one manual clock."""

from support.broker.broker_cluster import BrokerCluster, in_broker_cluster
from support.kafka.kafka_requests import batch_of, produce_request, row_of, sequenced
from support.scenarios import scenario

DEAD = 0


async def produced(cluster: BrokerCluster, node_id: int, topic, batch):
    asking = cluster.nodes[node_id].client().send(produce_request(topic, batch))
    await cluster.until(asking.done)
    return row_of(asking.result())


def leader_of(cluster: BrokerCluster, topic, index: int = 0) -> int:
    return cluster.partition(topic, index).leader


@scenario(in_broker_cluster, 3, wal_in_bucket=True)
async def test_fo17_a_producer_goes_on_at_the_new_leader_which_knows_what_it_has_sent(cluster) -> None:
    topic = await cluster.topic()
    first = await produced(cluster, DEAD, topic, sequenced(5, 0, 3))
    await cluster.dies(DEAD, by=1)
    leader = leader_of(cluster, topic)
    assert leader in (1, 2)
    again = await produced(cluster, leader, topic, sequenced(5, 0, 3))
    assert (again.error_code, again.base_offset) == (0, first.base_offset), "its answer was lost"
    following = await produced(cluster, leader, topic, sequenced(5, 3))
    assert (following.error_code, following.base_offset) == (0, 3)
    opened = cluster.nodes[leader].parts.partitions.opened(topic.id, 0)
    assert (opened.leader_epoch, opened.next_offset) == (1, 4)


@scenario(in_broker_cluster, 3, wal_in_bucket=True)
async def test_fo12_of_a_node_that_dies_while_it_hands_over_the_target_leads_what_was_given_up(
    cluster,
) -> None:
    topic = await cluster.topic(leaders=(DEAD, DEAD))
    asking = cluster.nodes[DEAD].client().send(produce_request(topic, batch_of(), batch_of()))
    await cluster.until(asking.done)
    await cluster.move(topic, 2, 0)
    await cluster.until(lambda: leader_of(cluster, topic) == 2)
    await cluster.dies(DEAD, by=1)
    assert leader_of(cluster, topic, 0) == 2
    assert leader_of(cluster, topic, 1) in (1, 2)
    assert (await produced(cluster, 2, topic, batch_of())).base_offset == 1
