"""A move of the histories of clusters: a leader learns late which transaction was open."""

import asyncio
from typing import Any

from siltstone.kafka_protocol.api_key import ApiKey
from support.broker.broker_cluster import LateAnswer, Question
from support.broker.transactional_programs import Program
from support.engine.engine_world import settled


async def number_comes_late(history: Any, program: Program) -> None:
    """A leader dies, and the node that replays its log does not know the number of what is open there. It asks when the
    marker comes, and the answer is on its way for so long that the marker is sent again. The late answer arrives when
    the next transaction, in version 1 under the same epoch, is open."""
    assert program.generation == 1
    cluster, coordinator = history.cluster, history.coordinator(program)
    leaders = [each.leader for each in history.world.image.topics[history.topic.id].partitions]
    elsewhere = {*leaders} - {coordinator}
    if not elsewhere or history.dead or not await history.open_everywhere(program):
        return
    dead = min(elsewhere)
    (there,) = {each.node_id for each in cluster.nodes} - {coordinator, dead}
    history.dead.add(dead)
    await cluster.dies(dead, by=there)
    for index in [each for each, leader in enumerate(leaders) if leader == dead]:
        await cluster.move(history.topic, there, index)
    await cluster.passes(1_000)
    late, held = asyncio.get_running_loop().create_future(), list[Question]()

    def first_is_late(question: Question) -> LateAnswer | None:
        asks_what = question.request
        if asks_what.api_key != ApiKey.ADD_PARTITIONS_TO_TXN or question.asks != there or held:
            return None
        if any(each.transactional_id for each in asks_what.transactions):
            return None  # it asks for a permission
        held.append(question)
        return LateAnswer(late)

    fate, cluster.between_nodes = cluster.between_nodes, first_is_late
    is_over, history.is_over = history.is_over, True
    await history.finished(program, asyncio.ensure_future(history.ends(program)))
    await cluster.passes(12_000, 1_000)
    if program.client is not None and await history.open_everywhere(program):
        late.done() or late.set_result(None)
        await settled(240)
        await history.check()
        await history.finished(program, asyncio.ensure_future(program.end(False)))
    late.done() or late.set_result(None)
    cluster.between_nodes, history.is_over = fate, is_over
    await cluster.passes(1_000)
