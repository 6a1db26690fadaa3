"""What is read, what is refused, and with which error: every message in every version, fed whole and damaged."""

import tracemalloc
from typing import Any

import pytest

from siltstone.kafka_protocol.codec import decode, decode_in_place, encode, encode_pieces
from siltstone.kafka_protocol.compiling.layout import FieldGroup
from siltstone.kafka_protocol.compiling.primitives import varint
from siltstone.kafka_protocol.malformed import MalformedMessage, UnencodableMessage, UnknownVersion
from siltstone.kafka_protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from siltstone.kafka_protocol.messages.fetch import (
    FetchedPartition,
    FetchedTopic,
    FetchRequest,
    FetchResponse,
)
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from siltstone.kafka_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from siltstone.kafka_protocol.messages.offset_commit import OffsetCommitRequest
from siltstone.kafka_protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from siltstone.kafka_protocol.notation import Message
from siltstone.model.limits import MIB
from siltstone.model.serving_limits import MESSAGE_ELEMENTS_MAX, REQUEST_ELEMENTS_MAX
from support.kafka.message_strategies import (
    EVERY_VERSION,
    IN_ITS_VERSIONS,
    full_message,
    group_of,
    is_same,
    versions_tried,
)

__all__ = ["versions_tried"]


def encodes_tagged_fields(message: type[Message], version: int) -> bool:
    return message.flexible_since is not None and version >= message.flexible_since


LEGACY, FLEXIBLE = 3, 4
"""Of Heartbeat: error code and two numbers less, so that a body can be written by hand."""
PEAK_BYTES_MAX = 100_000


def outcome(message: type[Message], version: int, body: bytes) -> Any:
    """The message, or None: any exception but MalformedMessage fails the test."""
    try:
        found = decode(message, version, body)
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            decode_in_place(message, version, body)
        return None
    assert is_same(decode_in_place(message, version, body), found, version)
    return found


# -- every message ----------------------------------------------------------------------------------------------


@IN_ITS_VERSIONS
@pytest.mark.usefixtures("versions_tried")
def test_a_whole_body_is_read_and_what_trails_it_is_ignored(
    message: type[Message], versions: list[int]
) -> None:
    for version in versions:
        built = full_message(message, version)
        body = encode(built, version)
        assert outcome(message, version, body) == built
        assert outcome(message, version, body + b"\x00\x01\xff") == built


@IN_ITS_VERSIONS
@pytest.mark.usefixtures("versions_tried")
def test_a_body_cut_off_anywhere_is_malformed(message: type[Message], versions: list[int]) -> None:
    for version in versions:
        body = encode(full_message(message, version), version)
        whole = [size for size in range(len(body)) if outcome(message, version, body[:size]) is not None]
        assert whole == [], version


@IN_ITS_VERSIONS
@pytest.mark.usefixtures("versions_tried")
def test_no_length_or_count_takes_memory_that_the_body_has_not(
    message: type[Message], versions: list[int]
) -> None:
    for version in versions:
        body = encode(full_message(message, version), version)
        for bomb in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x7f\xff"):
            for position in range(len(body)):
                damaged = body[:position] + bomb + body[position + len(bomb) :]
                outcome(message, version, damaged)
                decoder_peak(message, version, damaged, only_if=position % 16 == 0)


def decoder_peak(message: type[Message], version: int, body: bytes, only_if: bool) -> None:
    """Tracing is slow: each message is looked at in a few places."""
    if not only_if:
        return
    tracemalloc.start()
    outcome(message, version, body)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < PEAK_BYTES_MAX


@IN_ITS_VERSIONS
@pytest.mark.usefixtures("versions_tried")
def test_unknown_tagged_fields_are_skipped(message: type[Message], versions: list[int]) -> None:
    tagged = b"".join(
        varint(tag) + varint(len(value)) + value for tag, value in ((99, b"later"), (300, bytes(200)))
    )
    for version in (version for version in versions if encodes_tagged_fields(message, version)):
        # None of its known ones is written, so the last byte counts the tagged fields of the message.
        body = encode(message(), version)
        assert body[-1] == 0
        assert outcome(message, version, body[:-1] + b"\x02" + tagged) == decode(message, version, body)
        assert outcome(message, version, body[:-1] + b"\x02" + tagged[:-1]) is None
        assert outcome(message, version, body[:-1] + b"\x03" + tagged) is None


@pytest.mark.parametrize("version", [-1, 14])
def test_versions_that_it_does_not_have(version: int) -> None:
    with pytest.raises(UnknownVersion, match="MetadataRequest has versions 0 to 13"):
        decode(MetadataRequest, version, b"")
    with pytest.raises(UnknownVersion):
        encode(MetadataRequest(), version)


# -- one rule at a time -----------------------------------------------------------------------------------------


def legacy_heartbeat(group_id: bytes = b"\x00\x01g") -> bytes:
    return group_id + b"\x00\x00\x00\x07" + b"\x00\x01m" + b"\xff\xff"


def flexible_heartbeat(group_id: bytes = b"\x02g", tagged: bytes = b"\x00") -> bytes:
    return group_id + b"\x00\x00\x00\x07" + b"\x02m" + b"\x00" + tagged


def test_the_bodies_written_by_hand_are_read() -> None:
    read = HeartbeatRequest(group_id="g", generation_id=7, member_id="m", group_instance_id=None)
    assert decode(HeartbeatRequest, LEGACY, legacy_heartbeat()) == read
    assert decode(HeartbeatRequest, FLEXIBLE, flexible_heartbeat()) == read


@pytest.mark.parametrize(
    ("rule", "version", "body"),
    [
        ("null where none may be", LEGACY, legacy_heartbeat(b"\xff\xff")),
        ("compact null where none may be", FLEXIBLE, flexible_heartbeat(b"\x00")),
        ("negative length", LEGACY, legacy_heartbeat(b"\x80\x00")),
        ("longer than the body", LEGACY, legacy_heartbeat(b"\x00\x20g")),
        ("compact, longer than the body", FLEXIBLE, flexible_heartbeat(b"\x20g")),
        ("varint without an end", FLEXIBLE, flexible_heartbeat(b"\xff" * 12)),
        ("varint of six bytes", FLEXIBLE, flexible_heartbeat(b"\x82\x80\x80\x80\x80\x00g")),
        ("no UTF-8", LEGACY, legacy_heartbeat(b"\x00\x01\xff")),
        ("compact, no UTF-8", FLEXIBLE, flexible_heartbeat(b"\x02\xff")),
        ("half a surrogate pair", LEGACY, legacy_heartbeat(b"\x00\x03\xed\xa0\x80")),
        ("more tagged fields than bytes", FLEXIBLE, flexible_heartbeat(tagged=b"\xff\xff\xff\xff\x0f")),
        ("tagged field longer than the body", FLEXIBLE, flexible_heartbeat(tagged=b"\x01\x00\x7fx")),
        ("empty", LEGACY, b""),
    ],
)
def test_malformed(rule: str, version: int, body: bytes) -> None:
    assert rule
    for read in (decode, decode_in_place):
        with pytest.raises(MalformedMessage, match=f"^HeartbeatRequest v{version}: "):
            read(HeartbeatRequest, version, body)


@pytest.mark.parametrize(
    ("message", "version", "body"),
    [
        (ApiVersionsRequest, 3, b"\x02n" + b"\x00" + b"\x00"),
        (DeleteGroupsRequest, 0, b"\xff\xff\xff\xff"),
        (DeleteGroupsRequest, 2, b"\x00" + b"\x00"),
        (SyncGroupResponse, 0, b"\x00\x00" + b"\xff\xff\xff\xff"),
        (SyncGroupResponse, 4, bytes(6) + b"\x00" + b"\x00"),
    ],
)
def test_a_null_is_no_empty_one(message: type[Message], version: int, body: bytes) -> None:
    """Each body would be whole if it were."""
    with pytest.raises(MalformedMessage, match="but is not nullable"):
        decode(message, version, body)


def test_a_length_written_with_more_bytes_than_it_needs_is_read() -> None:
    assert decode(HeartbeatRequest, FLEXIBLE, flexible_heartbeat(b"\x82\x80\x00g")).group_id == "g"


def test_an_error_tells_what_and_where() -> None:
    with pytest.raises(
        MalformedMessage,
        match=r"^HeartbeatRequest v3: group_id has length 32, more than the bytes that remain at byte 2$",
    ):
        decode(HeartbeatRequest, LEGACY, legacy_heartbeat(b"\x00\x20g"))


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_ab02_a_count_is_held_against_the_smallest_size_of_its_elements(size: int) -> None:
    """Names of groups take two bytes each at least."""
    body = (size).to_bytes(4, "big") + bytes(2 * size)
    assert len(decode(DeleteGroupsRequest, 0, body).groups_names) == size
    with pytest.raises(MalformedMessage, match="groups_names has length"):
        decode(DeleteGroupsRequest, 0, body[:-1])


def test_all_arrays_of_a_message_together_have_so_many_elements() -> None:
    partitions = REQUEST_ELEMENTS_MAX // 2
    topic = b"\x02t" + varint(partitions + 1) + bytes(4 * partitions) + b"\x00"
    before = bytes(25) + b"\x01"  # no topics
    full = before + b"\x03" + topic * 2 + b"\x01" + b"\x00"
    with pytest.raises(MalformedMessage, match="more than 100000 elements"):
        decode(FetchRequest, 12, full)
    fewer = b"\x02t" + varint(partitions - 1) + bytes(4 * (partitions - 2)) + b"\x00"
    fitting = before + b"\x03" + topic + fewer + b"\x01" + b"\x00"
    assert len(decode(FetchRequest, 12, fitting).forgotten_topics) == 2


@pytest.mark.parametrize("version", [8, 9])
def test_a_string_is_as_long_in_newer_versions_as_in_older_ones(version: int) -> None:
    """Java refuses longer ones too; they could not be written in an older version, in answer to somebody else."""
    longest = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32_767)])
    assert decode(MetadataRequest, version, encode(longest, version)) == longest
    if version == 9:
        longer = encode(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32_768)]), version)
        with pytest.raises(MalformedMessage, match="name has length 32768, more than a string may have"):
            decode(MetadataRequest, version, longer)


def test_a_response_may_have_more_elements_than_a_request() -> None:
    """Whoever asked a large cluster wants to read the answer."""
    broker_ids = REQUEST_ELEMENTS_MAX + 1
    body = encode(MetadataResponse(topics=[_topic_of(broker_ids)]), 9)
    assert len(decode(MetadataResponse, 9, body).topics[0].partitions[0].replica_nodes) == broker_ids
    too_many = encode(MetadataResponse(topics=[_topic_of(MESSAGE_ELEMENTS_MAX)]), 9)
    with pytest.raises(MalformedMessage, match="more than 1000000 elements"):
        decode(MetadataResponse, 9, too_many)


def _topic_of(replicas: int) -> MetadataResponseTopic:
    partition = MetadataResponsePartition(replica_nodes=[0] * replicas)
    return MetadataResponseTopic(name="t", partitions=[partition])


@pytest.mark.parametrize("message", [HeartbeatRequest, ApiVersionsResponse], ids=["none known", "some known"])
def test_ab01_tagged_fields_at_one_place_are_limited(message: type[Message]) -> None:
    version = message.versions[1]
    body = encode(message(), version)[:-1]
    later = b"\x63\x00"
    assert decode(message, version, body + varint(1_000) + later * 1_000) == message()
    with pytest.raises(MalformedMessage, match="1001 tagged fields at one place, more than 1000"):
        decode(message, version, body + varint(1_001) + later * 1_001)


def test_ab01_tagged_fields_count_as_elements_of_their_message() -> None:
    """Or each of a hundred thousand elements could have a thousand."""

    def of_topics(count: int, tagged: int) -> MetadataRequest:
        topic = bytes(16) + b"\x02t" + varint(tagged) + b"\x63\x00" * tagged
        return decode(MetadataRequest, 12, varint(count + 1) + topic * count + b"\x00\x00\x00")

    fitting = REQUEST_ELEMENTS_MAX // 1_000
    assert len(of_topics(fitting, 999).topics or ()) == fitting
    with pytest.raises(MalformedMessage, match="more than 100000 elements"):
        of_topics(fitting + 1, 999)


def test_known_tagged_fields_are_read_in_any_order_and_among_others() -> None:
    body = encode(ApiVersionsResponse(), 3)[:-1]
    later, ready, epoch = b"\x63\x01?", b"\x03\x01\x01", b"\x01\x08" + bytes(7) + b"\x05"
    read = decode(ApiVersionsResponse, 3, body + b"\x03" + ready + later + epoch)
    assert read == ApiVersionsResponse(zk_migration_ready=True, finalized_features_epoch=5)


@pytest.mark.parametrize("field", [b"\x03\x02\x01\x00", b"\x03\x00", b"\x01\x07" + bytes(8)])
def test_a_known_tagged_field_that_does_not_fill_its_size_is_malformed(field: bytes) -> None:
    body = encode(ApiVersionsResponse(), 3)[:-1]
    with pytest.raises(MalformedMessage, match="tagged field"):
        decode(ApiVersionsResponse, 3, body + b"\x01" + field + bytes(8))


def test_tagged_fields_are_written_in_order_and_only_those_that_say_something() -> None:
    assert encode(ApiVersionsResponse(zk_migration_ready=False), 3)[-1:] == b"\x00"
    features = [FinalizedFeatureKey(name="f", max_version_level=2, min_version_level=1)]
    body = encode(
        ApiVersionsResponse(zk_migration_ready=True, finalized_features=features, finalized_features_epoch=5),
        3,
    )
    in_order = b"\x01\x08" + bytes(7) + b"\x05", b"\x02\x08\x02\x02f\x00\x02\x00\x01\x00", b"\x03\x01\x01"
    assert body.endswith(b"\x03" + b"".join(in_order))


def test_unknown_tagged_fields_inside_a_structure_are_skipped() -> None:
    topic = b"\x02t\x01" + b"\x05\x02xx"
    body = b"\x02" + bytes(16) + topic + b"\x00\x00\x00"
    assert decode(MetadataRequest, 12, body).topics == [MetadataRequestTopic(name="t")]


def test_structures_that_may_be_null() -> None:
    nothing = DescribeTopicPartitionsRequest()
    assert encode(nothing, 0) == b"\x01\x00\x00\x07\xd0\xff\x00"
    assert decode(DescribeTopicPartitionsRequest, 0, encode(nothing, 0)) == nothing
    somewhere = DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="t", partition_index=3))
    assert encode(somewhere, 0) == b"\x01\x00\x00\x07\xd0\x01\x02t\x00\x00\x00\x03\x00\x00"
    assert decode(DescribeTopicPartitionsRequest, 0, encode(somewhere, 0)) == somewhere


def test_librdkafka_s_metadata_request_for_all_topics() -> None:
    """Version 13 of librdkafka 2.16: the array's null is written with four bytes, three more than it has. Read
    literally, it says that topics are not to be created; the rest trails."""
    body = bytes.fromhex("00000000" + "010000")
    assert decode(MetadataRequest, 13, body) == MetadataRequest(topics=None, allow_auto_topic_creation=False)


def test_what_a_version_lacks_has_its_default_and_is_left_out() -> None:
    asked = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    assert encode(asked, 1) == b"\xff\xff\xff\xff"
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff") == MetadataRequest(
        topics=None, allow_auto_topic_creation=True
    )


def test_lists_of_defaults_are_nobody_else_s() -> None:
    first, second = (decode(MetadataResponse, 0, bytes(8)) for _ in range(2))
    first.topics.append(None)  # type: ignore[arg-type]
    assert second.topics == []
    assert MetadataResponse().topics == []
    first_tagged, second_tagged = (
        decode(ApiVersionsResponse, 3, encode(ApiVersionsResponse(), 3)) for _ in range(2)
    )
    first_tagged.finalized_features.append(FinalizedFeatureKey())
    assert second_tagged.finalized_features == []


def test_bytes_are_slices_of_a_copy_and_in_place_of_the_body() -> None:
    asked = SyncGroupRequest(assignments=[SyncGroupRequestAssignment(member_id="m", assignment=b"topics")])
    body = bytearray(encode(asked, 5))
    copied = decode(SyncGroupRequest, 5, body).assignments[0].assignment
    in_place = decode_in_place(SyncGroupRequest, 5, body).assignments[0].assignment
    assert isinstance(copied, memoryview)
    assert isinstance(in_place, memoryview)
    body[body.index(b"topics")] = ord("T")
    assert (copied, in_place) == (b"topics", b"Topics")


def test_records_in_pieces_are_not_joined() -> None:
    batches = [memoryview(b"first"), b"second"]
    response = FetchResponse(topics=[FetchedTopic(name="t", partitions=[FetchedPartition(records=batches)])])
    pieces = encode_pieces(response, 11)
    assert [piece for piece in pieces if any(piece is batch for batch in batches)] == batches
    assert b"".join(pieces) == encode(response, 11)
    assert encode_pieces(HeartbeatResponse(), 0) == [b"\x00\x00"]


@pytest.mark.parametrize(
    ("unencodable", "version"),
    [
        (MetadataRequest(topics=None), 0),
        (MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9),
        (MetadataRequest(topics=[MetadataRequestTopic(topic_id=bytes(15), name="t")]), 12),
        (HeartbeatRequest(group_id="g" * 32_768), LEGACY),
        (HeartbeatRequest(generation_id=1 << 31), LEGACY),
        (HeartbeatRequest(generation_id=1 << 31), FLEXIBLE),
        (HeartbeatRequest(group_id="\ud800"), FLEXIBLE),
        (ApiVersionsRequest(client_software_name=None), 3),  # type: ignore[arg-type]
    ],
)
def test_unencodable(unencodable: Message, version: int) -> None:
    with pytest.raises(UnencodableMessage, match=f"^{type(unencodable).__name__} v{version}: "):
        encode(unencodable, version)


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_383, 16_384, 32_767])
def test_compact_lengths_of_one_byte_and_more(size: int) -> None:
    asked = HeartbeatRequest(group_id="g" * size)
    body = encode(asked, FLEXIBLE)
    assert body.startswith(varint(size + 1))
    assert decode(HeartbeatRequest, FLEXIBLE, body) == asked


def test_the_full_message_leaves_nothing_out() -> None:
    """What the tests above are worth depends on it."""
    for message, version in EVERY_VERSION:
        assert_full(group_of(message, version), full_message(message, version))


def assert_full(group: FieldGroup, structure: Any) -> None:
    for field in [*group.fields, *(tagged.field for tagged in group.tagged)]:
        value = getattr(structure, field.name)
        assert value not in (None, [], "", b""), field.name
        if isinstance(field.type, FieldGroup):
            assert_full(field.type, value)


def test_old_and_new_in_one_description() -> None:
    assert OffsetCommitRequest.versions == (2, 10)
    names = {
        version: [field.name for field in group_of(OffsetCommitRequest, version).fields]
        for version in (2, 10)
    }
    assert names[2] == [
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "retention_time_ms",
        "topics",
    ]
    assert names[10] == [
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "topics",
    ]


@pytest.mark.parametrize("filler", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"], ids=["fixed", "varint"])
def test_ab02_no_message_takes_memory_for_lengths_that_are_claimed(filler: bytes) -> None:
    """Every length is 2³¹−1 here, whatever stands before it, in every version of every message."""
    refused = 0
    tracemalloc.start()
    try:
        for pair in CATALOGUE.values():
            for message in pair:
                for version in range(message.versions[0], message.versions[1] + 1):
                    for skipped in range(64):
                        body = bytes(skipped) + filler * 20
                        try:
                            decode(message, version, body)
                        except MalformedMessage:
                            refused += 1
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused > 10_000
    assert peak_bytes < 8 * MIB
