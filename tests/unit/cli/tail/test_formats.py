import click
import pytest

from siltstone.cli.tail.formats import (
    FORMATS,
    JSON,
    RAW,
    TEXT,
    Columns,
    FormatChoice,
    moment_words,
    record_writer,
)
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_protocol.records.reading import Record
from support.values.left_out import numbers_left_out

WHERE = TopicPartition("t", 3)
RECORD = Record(
    offset=12,
    timestamp_ms=1_700_000_000_062,
    key=b"k\x1b",
    value=b"v\tw\n",
    headers=(("a", b"1"), ("b", None)),
)
ALL = Columns(timestamps=True, offsets=True, key=True, headers=True)


def line(record: Record, line_format: str = TEXT, columns: Columns = ALL, in_colour: bool = False) -> bytes:
    return record_writer(line_format, columns, in_colour=in_colour)(WHERE, record)


def test_text_is_one_line_of_columns_whatever_the_bytes() -> None:
    assert line(RECORD) == b"2023-11-14 22:13:20.062\t3:12\tk\\x1b\ta=1 b=<null>\tv\\tw\\n\n"
    assert line(RECORD, columns=Columns()) == b"v\\tw\\n\n"
    assert line(Record(), columns=Columns(key=True)) == b"<null>\t<null>\n"
    assert line(Record(value=b""), columns=Columns()) == b"\n"


def test_colours_are_around_the_text_and_hide_nothing() -> None:
    painted = line(RECORD, in_colour=True).decode()
    assert painted.count("\x1b[0m") == 4
    for code in ("\x1b[0m", "\x1b[2m", "\x1b[36m", "\x1b[32m", "\x1b[33m"):
        painted = painted.replace(code, "")
    assert painted.encode() == line(RECORD)


def test_raw_is_exact() -> None:
    assert line(RECORD, RAW) == b"v\tw\n\n"
    assert line(Record(value=bytes(range(256))), RAW) == bytes(range(256)) + b"\n"
    assert line(Record(), RAW) == b"\n"


def test_json_has_everything() -> None:
    assert line(RECORD, JSON, Columns()) == (
        b'{"topic":"t","partition":3,"offset":12,"timestamp":1700000000062,"key":"k\\u001b","value":"v\\tw\\n",'
        b'"headers":[{"name":"a","value":"1"},{"name":"b","value":null}]}\n'
    )


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 999, 1_700_000_000_062, 2**63 - 1])
def test_a_moment_is_always_as_wide(timestamp_ms: int) -> None:
    assert len(moment_words(timestamp_ms)) == 23


def test_what_is_left_out() -> None:
    assert numbers_left_out(Columns) == {
        "timestamps": False,
        "offsets": False,
        "key": False,
        "headers": False,
    }


def test_the_first_moment_is_one() -> None:
    assert moment_words(0) == "1970-01-01 00:00:00.000"
    assert moment_words(-1) == f"{'-':23}"
    assert moment_words(-2) == "1969-12-31 23:59:59.998"
    assert moment_words(-62_135_596_800_000) == "0001-01-01 00:00:00.000"
    assert moment_words(-62_135_596_800_001) == f"{-62_135_596_800_001:23}"
    assert moment_words(10**17) == f"{10**17:23}"
    assert {len(moment_words(at)) for at in (-1, 0, 1_372_680_000_007, 10**17)} == {23}


def test_what_is_empty_has_no_colour() -> None:
    bare = Record(offset=1, timestamp_ms=0, key=b"", value=b"")
    painted = line(bare, columns=Columns(key=True, headers=True), in_colour=True)
    assert painted == b"\t\t\n"
    nothing = line(Record(), columns=Columns(key=True), in_colour=True)
    assert nothing == b"\x1b[2m<null>\x1b[0m\t\x1b[2m<null>\x1b[0m\n"


def test_a_format_is_a_name_or_a_template() -> None:
    assert line(RECORD, "%p:%o") == b"3:12"
    choice = FormatChoice()
    for value in (*FORMATS, "%k %s\n"):
        assert choice.convert(value, None, None) == value
    with pytest.raises(click.UsageError, match=r"'yaml' is not one of text, .*nor a template such as '%k %s"):
        choice.convert("yaml", None, None)


def test_the_shell_completes_the_names_of_formats() -> None:
    option, context = click.Option(["--format"]), click.Context(click.Command("tail"))
    completed = [item.value for item in FormatChoice().shell_complete(context, option, "j")]
    assert completed == [name for name in FORMATS if name.startswith("j")] != []
