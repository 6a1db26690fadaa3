"""Every API in every version that is announced is really spoken, and other libraries read what is answered."""

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from support.broker.every_request import PRODUCE_SINCE, plain_request, spoken_versions
from support.groups.raw_group import RawMember
from support.kafka.message_oracles import kafka_python_reads, kio_reads
from support.kafka.raw_calls import RawTopic, batch_of, create_topic, produce_well
from support.kafka.raw_kafka import Address, OracleCheckedConnection, RawConnection

BROKER_SETTINGS: dict[str, str] = {}

FLOOR = {
    ApiKey.PRODUCE: 7,
    ApiKey.FETCH: 11,
    ApiKey.METADATA: 4,
    ApiKey.LIST_OFFSETS: 2,
    ApiKey.OFFSET_COMMIT: 3,
    ApiKey.OFFSET_FETCH: 3,
    ApiKey.INIT_PRODUCER_ID: 0,
    ApiKey.API_VERSIONS: 0,
    ApiKey.FIND_COORDINATOR: 1,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DESCRIBE_CONFIGS: 1,
}
"""The lowest that librdkafka 2.0 and 2.16, Java 3.9 and 4.3, kafka-python 3, aiokafka 0.14 or kafkajs 2.2 sends."""

REFUSED = {
    ApiKey.JOIN_GROUP: ErrorCode.UNKNOWN_MEMBER_ID,
    ApiKey.SYNC_GROUP: ErrorCode.UNKNOWN_MEMBER_ID,
    ApiKey.HEARTBEAT: ErrorCode.UNKNOWN_MEMBER_ID,
    ApiKey.LEAVE_GROUP: ErrorCode.UNKNOWN_MEMBER_ID,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ErrorCode.GROUP_ID_NOT_FOUND,
    ApiKey.CONSUMER_GROUP_DESCRIBE: ErrorCode.GROUP_ID_NOT_FOUND,
    ApiKey.SHARE_GROUP_HEARTBEAT: ErrorCode.GROUP_ID_NOT_FOUND,
    ApiKey.SHARE_GROUP_DESCRIBE: ErrorCode.GROUP_ID_NOT_FOUND,
    ApiKey.SHARE_FETCH: ErrorCode.SHARE_SESSION_NOT_FOUND,
    ApiKey.SHARE_ACKNOWLEDGE: ErrorCode.SHARE_SESSION_NOT_FOUND,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ErrorCode.GROUP_ID_NOT_FOUND,
    ApiKey.DELETE_TOPICS: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ApiKey.DELETE_GROUPS: ErrorCode.GROUP_ID_NOT_FOUND,
    ApiKey.ADD_PARTITIONS_TO_TXN: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ApiKey.ADD_OFFSETS_TO_TXN: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ApiKey.TXN_OFFSET_COMMIT: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ApiKey.END_TXN: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ApiKey.WRITE_TXN_MARKERS: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ApiKey.DESCRIBE_TRANSACTIONS: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ApiKey.CREATE_ACLS: ErrorCode.SECURITY_DISABLED,
    ApiKey.DESCRIBE_ACLS: ErrorCode.SECURITY_DISABLED,
    ApiKey.DELETE_ACLS: ErrorCode.SECURITY_DISABLED,
    ApiKey.ELECT_LEADERS: ErrorCode.ELECTION_NOT_NEEDED,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ApiKey.UNREGISTER_BROKER: ErrorCode.BROKER_ID_NOT_REGISTERED,
    ApiKey.SASL_HANDSHAKE: ErrorCode.ILLEGAL_SASL_STATE,
    ApiKey.SASL_AUTHENTICATE: ErrorCode.ILLEGAL_SASL_STATE,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ErrorCode.RESOURCE_NOT_FOUND,
}
"""What the requests of ``every_request`` are answered with where they ask for what is not there or not needed."""

MAYBE_NO_GROUP = {ApiKey.OFFSET_DELETE, ApiKey.DESCRIBE_GROUPS}
"""There is a group when offsets were committed before."""


LOADING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
"""The broker answers these for a moment, while the topic of groups is made and read."""


@pytest.fixture(scope="module")
def filled(address: Address) -> RawTopic:
    with RawConnection(address) as connection:
        topic = create_topic(connection, "every-version", 2)
        produce_well(connection, topic, batch_of(3))
        return topic


def errors_in(value: object) -> Iterator[int]:
    """Every error code of a message."""
    if isinstance(value, list):
        for each in value:
            yield from errors_in(each)
    for name in getattr(value, "__struct_fields__", ()):
        if name.endswith("error_code"):
            yield getattr(value, name)
        else:
            yield from errors_in(getattr(value, name))


@pytest.mark.parametrize(("key", "version"), list(spoken_versions()))
def test_every_version_is_answered(
    connection: RawConnection, filled: RawTopic, key: ApiKey, version: int
) -> None:
    deadline = time.monotonic() + 60
    errors = LOADING
    while errors & LOADING and time.monotonic() < deadline:
        errors = set(errors_in(connection.ask(plain_request(key, version, filled), version))) - {0}
    if key in MAYBE_NO_GROUP:
        errors -= {ErrorCode.GROUP_ID_NOT_FOUND}
    is_for_nodes = key is ApiKey.ADD_PARTITIONS_TO_TXN and version >= 4
    assert errors == ({REFUSED[key]} if key in REFUSED and not is_for_nodes else set())


@pytest.mark.parametrize("reads", [kio_reads, kafka_python_reads], ids=["kio", "kafka-python"])
@pytest.mark.parametrize("end", ["oldest", "floor", "newest"])
def test_other_libraries_read_the_oldest_the_floor_and_the_newest(
    address: Address, filled: RawTopic, end: str, reads: Callable[..., object]
) -> None:
    with OracleCheckedConnection(address, reads) as connection:
        for key, (lowest, highest) in ANNOUNCED.items():
            oldest = PRODUCE_SINCE if key is ApiKey.PRODUCE else lowest
            version = {"oldest": oldest, "floor": FLOOR.get(key, oldest), "newest": highest}[end]
            connection.ask(plain_request(key, version, filled), version)


def test_a_client_of_the_oldest_versions_can_do_everything(connection: RawConnection, free_name: str) -> None:
    """From the first to the last step with nothing newer than what is announced at the bottom."""
    topic = create_topic(connection, free_name)
    produced = connection.ask(plain_request(ApiKey.PRODUCE, 3, topic), 3)
    assert produced.topics[0].partitions[0].error_code == 0
    fetched = connection.ask(plain_request(ApiKey.FETCH, 4, topic), 4)
    assert fetched.topics[0].partitions[0].high_watermark == 1
    member = RawMember(connection, free_name, version=0)
    assert member.join().leader == member.member_id
    assert member.sync() == member.member_id.encode()
    assert member.commit(topic, 1, version=2) == 0
    assert member.leave() == 0


def test_a_connection_that_never_says_anything_costs_nobody_anything(address: Address) -> None:
    silent = [socket.create_connection(address) for _ in range(200)]
    try:
        with RawConnection(address) as connection:
            connection.assert_alive()
    finally:
        for each in silent:
            each.close()
