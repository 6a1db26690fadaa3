import pytest

from siltstone.cli.tail.templates import TOKENS, TemplateRefused, parse_template
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_protocol.records.reading import Record

WHERE = TopicPartition("flights", 3)
RECORD = Record(
    offset=7, timestamp_ms=1_372_680_000_000, key=b"k", value=b"v\xff", headers=(("a", b"1"), ("b", None))
)


@pytest.mark.parametrize(
    ("template", "written"),
    [
        (r"%t %p %o %k: %s\n", b"flights 3 7 k: v\xff\n"),
        (r"%v\t%K\t%S\0", b"v\xff\t1\t2\0"),
        ("%T %h", b"1372680000000 a=1,b="),
        (r"100%%\\", b"100%\\"),
        ("%s", b"v\xff"),
    ],
)
def test_a_template_as_kcat_and_rpk_write_it(template: str, written: bytes) -> None:
    assert parse_template(template)(WHERE, RECORD) == written


def test_null_is_nothing_and_its_length_says_so() -> None:
    null = Record(offset=7, timestamp_ms=0, key=None, value=None)
    assert parse_template("[%k|%K|%s|%S]")(WHERE, null) == b"[|-1||-1]"


@pytest.mark.parametrize("template", ["%x", "%", r"%s\y"])
def test_what_is_not_known_is_refused_with_what_is(template: str) -> None:
    with pytest.raises(TemplateRefused, match="known are"):
        parse_template(template)


def test_every_token_is_in_the_table_of_the_module() -> None:
    from siltstone.cli.tail import templates

    assert all(f"``%{token}``" in templates.__doc__ for token in TOKENS)
