"""Records that were deleted, in the audit."""

from functools import partial

from siltstone.broker.security.audit.records import deletion_events
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.scenarios import scenario
from support.security.audit import CHANGED, WHO, audited, fields_of
from support.security.rights import client_of
from unit.broker.apis.test_delete_records import deleting, filled
from unit.broker.security.audit.test_trail import CHANGES, passes


@scenario(partial(in_broker_world, settings=CHANGES))
async def test_au03_deleted_records_are_there_with_where_a_partition_began_and_begins(
    world: BrokerWorld,
) -> None:
    await filled(world, partitions=2)
    for offsets in ((3, 99), (3, 0), (5, -1)):  # 99 is beyond the end; then nothing is new
        await client_of(world).ask(deleting(*offsets))
    await passes(world)
    records = [each for each in await audited(world.parts) if each["event"] == "records"]
    assert [fields_of(each, CHANGED) for each in records] == [
        ("records", "DELETE", "topic t", "t-0=0", "t-0=3"),
    ]
    assert records[0]["count"] == 2, "equal ones of ten seconds are one record: clients can send any number"
    assert fields_of(records[0], WHO) == ("User:s", "client.example", "PLAINTEXT", "DeleteRecords")


def test_what_was_refused_and_what_changed_nothing_is_left_out() -> None:
    rows = [
        DeleteRecordsPartitionResult(partition_index=index, low_watermark=low, error_code=code)
        for index, (low, code) in enumerate([(7, 0), (5, 0), (-1, 1), (3, 0)])
    ]
    response = DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=rows)])
    (event,) = deletion_events(response, {("t", 0): 2, ("t", 1): 5, ("t", 2): 0})
    assert (event.before, event.after) == ("t-0=2", "t-0=7, t-3=3"), "3 was not open before"
    assert not [*deletion_events(response, {("t", index): 9 for index in range(4)})]
