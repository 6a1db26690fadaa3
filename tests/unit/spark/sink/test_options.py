import pytest

from siltstone.sinking.failures import SinkRefused
from siltstone.sinking.plan import EncodingWish
from siltstone.sinking.transaction import TRANSACTION_TIMEOUT_MS
from siltstone.spark.sink.options import SinkRequest, parse_sink_options
from siltstone.value_formats.value_format import FormatKind


def parsed(*, is_stream: bool = False, overwrite: bool = False, **options: str) -> SinkRequest:
    return parse_sink_options({"store": "my-store", **options}, overwrite=overwrite, is_stream=is_stream)


def test_a_batch_is_named_by_us_or_by_the_names_that_delta_lake_has() -> None:
    ours = parsed(TOPIC="out", sinkName="loads", batchId="7", queryId="q", compression="zstd")
    assert (ours.topic, ours.sink_id, ours.batch_id, ours.query_id, ours.compression) == (
        "out",
        "loads",
        7,
        "q",
        "zstd",
    )
    theirs = parsed(txnAppId="loads", txnVersion="7")
    assert (theirs.sink_id, theirs.batch_id, theirs.topic) == ("loads", 7, None)
    nameless = parsed(), parsed()
    assert {(each.batch_id, each.is_nameless) for each in nameless} == {(0, True)}
    assert not ours.is_nameless and not theirs.is_nameless
    assert nameless[0].sink_id != nameless[1].sink_id, "two jobs are two sinks"


def test_a_stream_has_the_ids_of_spark() -> None:
    found = parsed(is_stream=True, checkpointLocation="/c", topic="out")
    assert (found.sink_id, found.batch_id) == (None, None)
    assert parsed(is_stream=True, sinkName="out").sink_id == "out"


def test_a_transaction_may_have_a_timeout_of_its_own() -> None:
    assert parsed(mode="transaction").transaction_timeout_ms == TRANSACTION_TIMEOUT_MS
    assert parsed(mode="transaction", TRANSACTIONTIMEOUT="10m").transaction_timeout_ms == 600_000
    assert parsed(mode="transaction", transactionTimeout="30s").transaction_timeout_ms == 30_000


def test_the_store_and_its_brokers_are_named() -> None:
    found = parse_sink_options(
        {"metadata": "sqlite:///m", "bucket.0": "file:///b", "kafka.bootstrap.servers": "h:1", "kafka.acks": "all"},
        overwrite=False, is_stream=True,
    )  # fmt: skip
    assert (found.place.metadata, found.place.buckets, found.bootstrap) == (
        "sqlite:///m",
        {0: "file:///b"},
        "h:1",
    )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"overwrite": True}, "a topic cannot be overwritten"),
        ({"mode": "atomic"}, "option mode='atomic': write relay.* transaction.* or objects"),
        ({"transactionTimeout": "9m"}, "transactionTimeout is for mode=transaction"),
        (
            {"mode": "transaction", "transactionTimeout": "soon"},
            "transactionTimeout='soon': write a duration",
        ),
        ({"mode": "transaction", "transactionTimeout": "0"}, "transactionTimeout='0': write a duration"),
        ({"sinkName": "loads"}, "sinkName and batchId are given together"),
        ({"batchId": "5", "is_stream": True}, "Spark numbers its batches"),
        ({"batchId": "five", "sinkName": "a"}, "option batchId='five'"),
        ({"sinkName": "a/b", "batchId": "5"}, "option sinkName='a/b'"),
        ({"topics": "out"}, "option topics does not exist"),
        ({"bucket.x": "file:///b"}, r"option bucket\.x does not exist; the options are .* and bucket\.N"),
        ({"bucket.²": "file:///b"}, r"option bucket\.² does not exist"),
        ({"metadata": "sqlite:///m"}, "name the store: give one"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(options: dict[str, object], named: str) -> None:
    with pytest.raises(SinkRefused, match=named):
        parsed(**options)  # type: ignore[arg-type]


def test_values_are_bytes_json_or_avro() -> None:
    assert parsed().encoding is None
    found = parsed(VALUE="avro", schemaRegistry="http://r", valueSubject="s").encoding
    assert found == EncodingWish(None, "http://r", "s")
    assert parsed(value="json").encoding == EncodingWish(kind=FormatKind.JSON)
    with pytest.raises(SinkRefused, match="option value='xml': write json or avro"):
        parsed(value="xml")
    for value in ({}, {"value": "json"}):
        with pytest.raises(SinkRefused, match="option schemaRegistry says how Avro is written: give option"):
            parsed(schemaRegistry="http://r", **value)
