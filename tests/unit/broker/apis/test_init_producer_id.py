import asyncio

import pytest

from siltstone.broker.parts import BLOCK_SIZE
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.metadata.store.port import LogUnavailable
from support.broker.admin_world import in_admin_world
from support.scenarios import scenario

IDEMPOTENT = InitProducerIdRequest(transactional_id=None)


@pytest.mark.parametrize("version", range(6))
@scenario(in_admin_world)
async def test_an_idempotent_producer_gets_an_id_in_every_version(world, version) -> None:
    answers = [await world.answer(IDEMPOTENT, version) for _ in range(3)]
    assert [answer.producer_id for answer in answers] == [0, 1, 2]
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}


@scenario(in_admin_world)
async def test_item_51_a_producer_that_comes_back_with_its_id_gets_another(world) -> None:
    """Kafka, too, gives a new id where there are no transactions: the old one cannot be anybody else's."""
    first = await world.answer(IDEMPOTENT)
    again = InitProducerIdRequest(
        transactional_id=None, producer_id=first.producer_id, producer_epoch=first.producer_epoch
    )
    for version in (3, 4, 5):
        answer = await world.answer(again, version)
        assert (answer.error_code, answer.producer_epoch) == (0, 0)
        assert answer.producer_id > first.producer_id


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 0)])
@scenario(in_admin_world)
async def test_half_an_identity_is_none(world, producer_id, epoch) -> None:
    request = InitProducerIdRequest(transactional_id=None, producer_id=producer_id, producer_epoch=epoch)
    answer = await world.answer(request)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


@pytest.mark.parametrize("version", range(6))
@scenario(in_admin_world)
async def test_tx14_an_empty_transactional_id_is_refused_and_writes_nothing(world, version) -> None:
    written = world.version
    answer = await world.answer(InitProducerIdRequest(transactional_id=""), version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (42, -1, -1)
    assert world.version == written


@scenario(in_admin_world)
async def test_one_command_for_a_block_of_ids_however_many_ask_at_once(world) -> None:
    written = world.version
    answers = await asyncio.gather(*(world.answer(IDEMPOTENT) for _ in range(BLOCK_SIZE)))
    assert len({answer.producer_id for answer in answers}) == BLOCK_SIZE
    assert world.version == written + 1
    assert (await world.answer(IDEMPOTENT)).producer_id == BLOCK_SIZE
    assert world.version == written + 2


@scenario(in_admin_world)
async def test_while_there_are_no_ids_to_be_had_clients_try_again(world) -> None:
    async def unavailable(_command):
        raise LogUnavailable("try again later")

    world.parts.metadata.execute = unavailable
    answer = await world.answer(IDEMPOTENT)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    del world.parts.metadata.execute
    assert (await world.answer(IDEMPOTENT)).error_code == 0
