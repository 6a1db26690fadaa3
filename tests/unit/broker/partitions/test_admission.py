import pytest

from siltstone.broker.partitions.admission import (
    KeyMissing,
    RecordRefused,
    TimestampRefused,
    TransactionWithoutProducer,
    admit,
    takes_long,
)
from siltstone.kafka_protocol import batch_errors
from siltstone.kafka_protocol.batch_checks import check_batch
from siltstone.kafka_protocol.batch_header import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    Codec,
    checksum_of,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.kafka_protocol.records.validation import RECORDS_NAMED_MAX
from siltstone.model.limits import RECORDS_READ_AT_ONCE_MAX
from siltstone.topic_configs.table import TopicConfig, parse_topic_configs
from support.kafka.kafka_batches import with_body, with_header, with_offset_deltas
from support.kafka.kafka_requests import NOW_MS, batch_of, timed_batch

NEWEST = 13
HOUR_MS = 3_600_000


def config(**configs: str) -> TopicConfig:
    """``cleanup_policy`` stands for cleanup.policy."""
    return parse_topic_configs({name.replace("_", "."): value for name, value in configs.items()})


PLAIN = config()
FULL = config(siltstone_record_validation="full")
COMPACTED = config(cleanup_policy="compact")
APPEND_TIME = config(message_timestamp_type="LogAppendTime")


def test_item_26_a_plain_batch_stays_byte_for_byte():
    batch = batch_of(3)
    before = bytes(batch)
    admitted = admit(batch, PLAIN, NOW_MS, NEWEST)
    assert admitted.batch is batch
    assert bytes(batch) == before
    assert admitted.header == read_batch_header(batch)
    assert admitted.append_time_ms == -1


@pytest.mark.parametrize(
    ("batch", "refusal"),
    [
        (b"", batch_errors.NotOneBatch),
        (batch_of() + batch_of(), batch_errors.NotOneBatch),
        (batch_of()[:60], batch_errors.TruncatedBatch),
        (batch_of() + b"\0", batch_errors.BatchLengthWrong),
        (with_header(batch_of(), magic=1), batch_errors.UnsupportedMagic),
        (with_header(batch_of(), base_offset=1), batch_errors.OffsetNotZero),
        (with_header(batch_of(), crc=5), batch_errors.BatchChecksumWrong),
        (with_header(batch_of(), record_count=2), batch_errors.RecordCountWrong),
        (with_header(batch_of(), record_count=0, last_offset_delta=-1), batch_errors.RecordCountWrong),
        (with_header(batch_of(), attributes=CONTROL_BIT), batch_errors.ControlBatchFromClient),
        (with_header(batch_of(), attributes=LOG_APPEND_TIME_BIT), batch_errors.LogAppendTimeFromClient),
        (with_header(batch_of(), attributes=5), batch_errors.UnknownCodec),
        (with_header(batch_of(), producer_id=4), batch_errors.SequenceMissing),
        (with_header(batch_of(), attributes=TRANSACTIONAL_BIT), TransactionWithoutProducer),
    ],
)
def test_what_the_header_is_refused_for(batch, refusal):
    with pytest.raises(refusal):
        admit(bytearray(batch), PLAIN, NOW_MS, NEWEST)


@pytest.mark.parametrize("version", [6, 7])
def test_zstd_is_taken_from_version_7_on(version):
    batch = batch_of(compression=Codec.ZSTD)
    if version >= 7:
        assert admit(batch, PLAIN, NOW_MS, version).batch is batch
    else:
        with pytest.raises(batch_errors.CodecNotAllowed):
            admit(batch, PLAIN, NOW_MS, version)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_as_large_as_the_topic_allows(codec):
    batch = batch_of(value_bytes=100, compression=codec)
    admit(batch, config(max_message_bytes=str(len(batch))), NOW_MS, NEWEST)
    with pytest.raises(batch_errors.BatchTooLarge):
        admit(batch, config(max_message_bytes=str(len(batch) - 1)), NOW_MS, NEWEST)


# -- times ---------------------------------------------------------------------------------------------------


def test_item_26_log_append_time_is_the_time_of_every_record():
    batch = timed_batch(5, 9, 7)
    admitted = admit(batch, APPEND_TIME, NOW_MS, NEWEST)
    assert admitted.append_time_ms == NOW_MS
    assert admitted.header.is_log_append_time
    assert admitted.header.max_timestamp_ms == NOW_MS
    assert admitted.header.base_timestamp_ms == 5
    assert [record.timestamp_ms for record in iterate_records(batch)] == [NOW_MS] * 3
    assert read_batch_header(batch).crc == checksum_of(batch)


def test_log_append_time_is_right_whatever_time_the_producer_has():
    far = 10 * 365 * 24 * HOUR_MS
    strict = config(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="0")
    admit(timed_batch(NOW_MS + far, NOW_MS - far), strict, NOW_MS, NEWEST)


@pytest.mark.parametrize("validation", ["header", "full"])
@pytest.mark.parametrize(
    ("ahead_ms", "refused"),
    [
        ((HOUR_MS,), []),
        ((HOUR_MS + 1,), [0]),
        ((0, 5, HOUR_MS + 1, 0, HOUR_MS + 2), [2, 4]),
        ((-(10**12), 0), []),
    ],
)
def test_times_ahead_of_the_broker(validation, ahead_ms, refused):
    batch = timed_batch(*(NOW_MS + ahead for ahead in ahead_ms))
    topic = config(siltstone_record_validation=validation)
    if not refused:
        assert admit(batch, topic, NOW_MS, NEWEST).batch is batch
    else:
        with pytest.raises(TimestampRefused, match="ahead of the broker") as refusal:
            admit(batch, topic, NOW_MS, NEWEST)
        assert [index for index, _ in refusal.value.records] == refused


@pytest.mark.parametrize("validation", ["header", "full"])
@pytest.mark.parametrize(
    ("behind_ms", "refused"),
    [((50,), []), ((51,), [0]), ((0, 51, 0), [1]), ((0, 99, 51), [1, 2]), ((-5, 50), [])],
)
def test_times_behind_the_broker_in_any_record(validation, behind_ms, refused):
    batch = timed_batch(*(NOW_MS - behind for behind in behind_ms))
    topic = config(siltstone_record_validation=validation, message_timestamp_before_max_ms="50")
    if not refused:
        admit(batch, topic, NOW_MS, NEWEST)
    else:
        with pytest.raises(TimestampRefused, match="behind the broker") as refusal:
            admit(batch, topic, NOW_MS, NEWEST)
        assert [index for index, _ in refusal.value.records] == refused


def test_records_without_a_time_are_neither_late_nor_early():
    topic = config(message_timestamp_before_max_ms="50")
    admitted = admit(timed_batch(-1, NOW_MS, -1), topic, NOW_MS, NEWEST)
    assert admitted.header.max_timestamp_ms == NOW_MS
    assert admit(timed_batch(-1, -1), topic, NOW_MS, NEWEST).header.max_timestamp_ms == -1


def test_a_largest_time_that_a_client_left_open_is_filled_in():
    batch = with_header(timed_batch(5, 9, 7), max_timestamp_ms=-1)
    admitted = admit(batch, PLAIN, NOW_MS, NEWEST)
    assert admitted.header.max_timestamp_ms == 9
    check_batch(batch, 1 << 20)


def test_a_largest_time_that_is_wrong_is_put_right_where_records_are_read():
    for wrong in (8, 10, NOW_MS + 2 * HOUR_MS):
        batch = with_header(timed_batch(5, 9, 7), max_timestamp_ms=wrong)
        assert admit(batch, FULL, NOW_MS, NEWEST).header.max_timestamp_ms == 9
        check_batch(batch, 1 << 20)


def test_whoever_says_too_late_is_taken_at_the_words_of_his_records():
    batch = with_header(timed_batch(5, 9, 7), max_timestamp_ms=NOW_MS + 2 * HOUR_MS)
    assert admit(batch, PLAIN, NOW_MS, NEWEST).header.max_timestamp_ms == 9


# -- keys and records ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_takes_no_record_without_key(compression, policy):
    keys = [b"a", b"", None, None]
    batch = build_batch([Record(timestamp_ms=NOW_MS, key=key) for key in keys], compression=compression)
    with pytest.raises(
        KeyMissing, match=r"2 records are refused; record 2: .* give every record a key"
    ) as refusal:
        admit(batch, config(cleanup_policy=policy), NOW_MS, NEWEST)
    assert [index for index, _ in refusal.value.records] == [2, 3]


@pytest.mark.parametrize("validation", ["header", "full"])
def test_each_record_is_named_once_and_a_wrong_time_decides_the_error(validation):
    """As Kafka's LogValidator: a record without a key is named for that, whatever its time is."""
    far = NOW_MS + 2 * HOUR_MS
    topic = config(cleanup_policy="compact", siltstone_record_validation=validation)

    def refusal_of(*found):
        with pytest.raises(RecordRefused) as refusal:
            admit(build_batch([Record(timestamp_ms=ms, key=key) for key, ms in found]), topic, NOW_MS, NEWEST)
        return type(refusal.value), [(index, text[:9]) for index, text in refusal.value.records]

    no_key, late = "the topic", "timestamp"
    mixed = (b"a", far), (None, NOW_MS), (b"b", NOW_MS), (None, far)
    assert refusal_of(*mixed) == (TimestampRefused, [(0, late), (1, no_key), (3, no_key)])
    assert refusal_of((b"a", NOW_MS), (None, far)) == (KeyMissing, [(1, no_key)])


def test_no_more_records_are_named_than_the_limit_says():
    count = RECORDS_NAMED_MAX + 2
    late = timed_batch(*[NOW_MS + 2 * HOUR_MS] * count)
    keyless = build_batch([Record(timestamp_ms=NOW_MS)] * count)
    for batch, topic in ((late, PLAIN), (keyless, COMPACTED)):
        with pytest.raises(RecordRefused) as refusal:
            admit(batch, topic, NOW_MS, NEWEST)
        assert [index for index, _ in refusal.value.records] == [*range(RECORDS_NAMED_MAX)]


def test_a_refused_batch_is_not_changed():
    batch = build_batch([Record(timestamp_ms=5)])
    before = bytes(batch)
    with pytest.raises(KeyMissing):
        admit(batch, config(cleanup_policy="compact", message_timestamp_type="LogAppendTime"), NOW_MS, NEWEST)
    assert bytes(batch) == before


@pytest.mark.parametrize("deltas", [(0, 0, 0), (2, 1, 0), (0, 5, 2), (0, 1, 3), (-1, 0, 1)])
@pytest.mark.parametrize("compression", [Codec.NONE, Codec.LZ4])
def test_offset_deltas_that_are_not_counted_up_are_refused_where_records_are_read(deltas, compression):
    records = [Record(timestamp_ms=NOW_MS, key=b"k")] * 3
    batch = with_offset_deltas(records, deltas, compression=compression)
    admit(bytearray(batch), PLAIN, NOW_MS, NEWEST)
    for topic in (FULL, COMPACTED):
        with pytest.raises(batch_errors.OffsetDeltaWrong):
            admit(bytearray(batch), topic, NOW_MS, NEWEST)


def test_what_kafka_does_not_look_at_is_accepted():
    """A producer id below 0 means none, and attribute bits without a meaning stay as they were sent."""
    assert admit(with_header(batch_of(), producer_id=-5), PLAIN, NOW_MS, NEWEST).header.producer_id == -5
    assert (
        admit(with_header(batch_of(), attributes=0x7F00), PLAIN, NOW_MS, NEWEST).header.attributes == 0x7F00
    )


def test_keys_are_asked_for_on_compacted_topics_only():
    admit(batch_of(key=None), PLAIN, NOW_MS, NEWEST)
    admit(batch_of(key=b""), COMPACTED, NOW_MS, NEWEST)


def malformed() -> bytearray:
    """A header that is right, before records that are not."""
    return with_body(batch_of(), b"\x7f" * 20)


def test_records_are_read_where_the_topic_wants_it():
    admit(malformed(), PLAIN, NOW_MS, NEWEST)
    with pytest.raises(batch_errors.MalformedRecords):
        admit(malformed(), FULL, NOW_MS, NEWEST)
    with pytest.raises(batch_errors.MalformedRecords):
        admit(malformed(), COMPACTED, NOW_MS, NEWEST)


def test_records_that_cannot_be_decompressed():
    batch = with_header(malformed(), attributes=Codec.GZIP)
    with pytest.raises(batch_errors.DecompressionFailed):
        admit(batch, FULL, NOW_MS, NEWEST)


# -- codecs ----------------------------------------------------------------------------------------------------

CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@pytest.mark.parametrize("sent", list(Codec))
@pytest.mark.parametrize("wanted", list(CODECS))
def test_a_batch_gets_the_codec_of_the_topic(sent, wanted):
    batch = batch_of(20, value_bytes=100, compression=sent, producer_id=3, producer_epoch=1, base_sequence=7)
    records = [(record.offset, bytes(record.value)) for record in iterate_records(batch)]
    admitted = admit(batch, config(compression_type=wanted), NOW_MS, NEWEST)
    assert admitted.header == read_batch_header(admitted.batch)
    assert admitted.header.codec == CODECS[wanted]
    assert (admitted.batch is batch) == (CODECS[wanted] == sent)
    assert [(record.offset, bytes(record.value)) for record in iterate_records(admitted.batch)] == records
    check_batch(admitted.batch, 1 << 20)
    header = admitted.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, 7)


def test_the_producers_codec_stays_unless_the_topic_has_one():
    batch = batch_of(compression=Codec.GZIP)
    assert admit(batch, config(compression_type="producer"), NOW_MS, NEWEST).batch is batch


def test_compressed_again_with_the_brokers_time():
    batch = timed_batch(5, 9, compression=Codec.GZIP)
    topic = config(compression_type="zstd", message_timestamp_type="LogAppendTime")
    admitted = admit(batch, topic, NOW_MS, NEWEST)
    assert admitted.header.is_log_append_time and admitted.header.codec == Codec.ZSTD
    assert [record.timestamp_ms for record in iterate_records(admitted.batch)] == [NOW_MS] * 2


def test_a_batch_that_grows_beyond_the_topics_limit_is_refused():
    batch = batch_of(10, value_bytes=1_000, compression=Codec.GZIP)
    topic = config(compression_type="uncompressed", max_message_bytes="2000")
    assert len(batch) < 2_000
    with pytest.raises(batch_errors.BatchTooLarge, match="after compression"):
        admit(batch, topic, NOW_MS, NEWEST)


# -- what is not done on the event loop ----------------------------------------------------------------------

MANY = batch_of(RECORDS_READ_AT_ONCE_MAX + 1, value_bytes=0)
FEW = batch_of(RECORDS_READ_AT_ONCE_MAX, value_bytes=0)
SMALL_BUT_COMPRESSED = batch_of(3, compression=Codec.ZSTD)
OLD_ONES_REFUSED = config(message_timestamp_before_max_ms=str(HOUR_MS))


@pytest.mark.parametrize("topic", [FULL, COMPACTED, OLD_ONES_REFUSED])
def test_many_records_and_compressed_ones_take_long_where_they_are_read(topic):
    assert takes_long(MANY, topic, NOW_MS)
    assert takes_long(SMALL_BUT_COMPRESSED, topic, NOW_MS)
    assert not takes_long(FEW, topic, NOW_MS)


@pytest.mark.parametrize("topic", [PLAIN, APPEND_TIME])
def test_nothing_takes_long_where_no_record_is_read(topic):
    assert not takes_long(MANY, topic, NOW_MS)
    assert not takes_long(SMALL_BUT_COMPRESSED, topic, NOW_MS)


@pytest.mark.parametrize("times", [{"max_timestamp_ms": -1}, {"max_timestamp_ms": NOW_MS + 2 * HOUR_MS}])
def test_times_that_the_header_does_not_tell_have_to_be_read(times):
    assert takes_long(with_header(SMALL_BUT_COMPRESSED, **times), PLAIN, NOW_MS)
    assert not takes_long(with_header(SMALL_BUT_COMPRESSED, **times), APPEND_TIME, NOW_MS)


def test_to_compress_anew_takes_long():
    lz4 = config(compression_type="lz4")
    assert takes_long(batch_of(), lz4, NOW_MS)
    assert not takes_long(batch_of(compression=Codec.LZ4), lz4, NOW_MS)


@pytest.mark.parametrize("batch", [b"", MANY[:60], bytes(61), b"\xff" * 61, b"\xff" * 1_000])
def test_what_is_no_batch_is_not_judged_yet(batch):
    for topic in (PLAIN, FULL, COMPACTED):
        assert takes_long(batch, topic, NOW_MS) in (True, False)
