import logging

import pytest
from msgspec.structs import replace

from siltstone.scanning.failures import ScanRefused
from siltstone.sinking.failures import SinkRefused
from siltstone.spark.option_names import CONNECTOR_OPTIONS, unknown_option
from siltstone.spark.sink.options import SinkPlace, parse_sink_options
from siltstone.spark.source.options import OPTIONS, STREAM_OPTIONS, parse_options
from siltstone.spark.source.stream_options import parse_stream_options

READ = {"store": "my-store", "subscribe": "flights"}


@pytest.mark.parametrize("name", CONNECTOR_OPTIONS)
def test_options_of_sparks_connector_that_change_no_row_are_warned_about_by_name(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert parse_options({**READ, name: "5"}) == parse_options(READ)
        assert parse_stream_options({**READ, name: "5"}) == parse_stream_options(READ)
        parse_sink_options({"store": "s", name.upper(): "5"}, overwrite=False, is_stream=True)
    said = [record.getMessage() for record in caplog.records]
    assert said[:2] == [f"options of the Kafka client have no meaning for format siltstone: {name}"] * 2
    assert name.upper() in said[2]


def test_options_of_streams_are_warned_about_where_no_stream_is_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert parse_options({**READ, "maxOffsetsPerTrigger": "5"}) == parse_options(READ)
    (record,) = caplog.records
    assert record.getMessage() == "options of streams have no meaning in a batch read: maxOffsetsPerTrigger"


def test_a_sink_takes_include_headers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parse_sink_options({"store": "s", "includeHeaders": "True"}, overwrite=False, is_stream=True)
        assert not caplog.records
        parse_sink_options({"store": "s", "includeHeaders": "false"}, overwrite=False, is_stream=True)
    assert "drop the column headers" in caplog.text
    with pytest.raises(SinkRefused, match="includeHeaders='maybe'"):
        parse_sink_options({"store": "s", "includeHeaders": "maybe"}, overwrite=False, is_stream=True)


@pytest.mark.parametrize("parse", [parse_options, parse_stream_options])
@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("maxFilesPerTrigger", "maxOffsetsPerTrigger"),
        ("startingOfsets", "startingOffsets"),
        ("groupid_", "groupId"),
    ],
)
def test_a_misspelt_option_is_refused_with_the_one_that_was_meant_and_with_all(
    parse: object, wrong: str, meant: str
) -> None:
    with pytest.raises(ScanRefused) as refused:
        parse({**READ, wrong: "5"})  # type: ignore[operator]
    assert str(refused.value).startswith(
        f"option {wrong} does not exist; did you mean {meant}? the options are "
    )
    assert all(name in str(refused.value) for name in (*OPTIONS, *STREAM_OPTIONS))


def test_a_misspelt_option_of_a_sink() -> None:
    with pytest.raises(
        SinkRefused, match=r"option sinkname_ does not exist; did you mean sinkName\? the options"
    ):
        parse_sink_options({"store": "s", "sinkname_": "a"}, overwrite=False, is_stream=True)


def test_a_name_like_no_other_is_refused_with_the_list_alone() -> None:
    assert unknown_option("zzz", ["store"]) == "option zzz does not exist; the options are store and bucket.N"


def test_create_table_is_told_what_works_instead() -> None:
    with pytest.raises(ScanRefused, match="write CREATE TEMPORARY VIEW name USING siltstone OPTIONS"):
        parse_options({"provider": "siltstone"})


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("metadata", "postgresql://me:s3cret@h/db"),
        ("metadata", "postgresql://me@h/db?password=s3cret"),
        ("store", "postgresql://me:s3cret@h/db"),
        ("schemaRegistry", "https://me:s3cret@registry"),
        ("bucket.0", "s3://bucket/prefix?secret=s3cret"),
    ],
)
def test_sp03_a_password_in_a_url_is_refused_without_being_shown(name: str, url: str) -> None:
    given = {"subscribe": "t", **({"store": "s"} if name not in ("metadata", "store") else {}), name: url}
    with pytest.raises(ScanRefused, match=f"option {name} has a password in its URL") as refused:
        parse_options(given)
    assert "s3cret" not in str(refused.value)
    del given["subscribe"]
    with pytest.raises(SinkRefused, match=f"option {name} has a password in its URL") as refused_too:
        parse_sink_options(given, overwrite=False, is_stream=True)
    assert "s3cret" not in str(refused_too.value)


def test_sp01_representations_show_no_password() -> None:
    place = SinkPlace(None, "postgresql://me:s3cret@h/db", {0: "s3://b?secret=s3cret"})
    request = parse_options(READ)
    source = replace(request, metadata="postgresql://me:s3cret@h/db", buckets={0: "s3://b?secret=s3cret"})
    for text in (repr(place), str(place), repr(source), str(source)):
        assert "s3cret" not in text and "me:****@h" in text
