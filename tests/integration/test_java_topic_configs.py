"""Our table of topic configurations against Kafka's own ``LogConfig``: the same rows, and the same values accepted and
refused, for the same reason in the same words."""

from collections.abc import Iterator

import pytest
from py4j.java_gateway import get_field
from py4j.protocol import Py4JError, Py4JJavaError

from oracles.java_artifacts import APACHE_KAFKA, fetch_jars
from oracles.java_machine import JavaMachine, running_java_machine
from siltstone.topic_configs.rows import TABLE, ConfigRow
from siltstone.topic_configs.table import parse_topic_configs
from siltstone.topic_configs.values import InvalidTopicConfig, written
from support.kafka.kafka_oracles import or_skip

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.timeout(600)]

KAFKAS = [row for row in TABLE.values() if not row.name.startswith("siltstone.")]
VALUES = [
    "", " ", "0", "1", "-1", "-2", "-3", " 12 ", "+5", "007", "1_000", "0x10", "abc", "1.5", ".5", "5.", "1e-1", "1E3",
    "9", "10", "17", "18", "22", "23", "-131072", "-131073", "1048575", "1048576", "2147483647", "2147483648",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "true", "TRUE", " False ", "yes",
    "delete", "compact", "compact,delete", "compact , delete", "compact,", ",", "compact,compact", "Compact", "none",
    "producer", "uncompressed", "gzip", "GZIP", "zstd", "lz4", "snappy", "CreateTime", "LogAppendTime", "createTime",
    "*", "0:1", "0:1,2:3", "0:1, 2:3", "0:x", "*,0:1",
]  # fmt: skip


@pytest.fixture(scope="module")
def java() -> Iterator[JavaMachine]:
    with or_skip(lambda: running_java_machine(fetch_jars(APACHE_KAFKA))) as machine:
        yield machine


def log_config(java: JavaMachine):
    return java.classes.org.apache.kafka.storage.internals.log.LogConfig


def test_the_names_are_kafkas(java: JavaMachine) -> None:
    keys = log_config(java).configDefCopy().configKeys()
    assert {name for name in keys if not get_field(keys[name], "internalConfig")} == {
        row.name for row in KAFKAS
    }


@pytest.mark.parametrize("row", KAFKAS, ids=lambda row: row.name)
def test_a_row_is_kafkas(java: JavaMachine, row: ConfigRow) -> None:
    key = log_config(java).configDefCopy().configKeys()[row.name]
    convert = java.classes.org.apache.kafka.common.config.ConfigDef.convertToString
    kind = get_field(key, "type")
    assert row.kind.name == kind.name()
    assert row.default == convert(get_field(key, "defaultValue"), kind)
    synonyms = java.classes.org.apache.kafka.server.config.ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS
    assert row.synonyms == tuple(synonym.name() for synonym in synonyms.get(row.name) or ())


@pytest.mark.parametrize("row", KAFKAS, ids=lambda row: row.name)
def test_values_are_accepted_and_refused_as_by_kafka(java: JavaMachine, row: ConfigRow) -> None:
    for text in VALUES:
        if text == "," and "throttled" in row.name:
            continue  # Kafka takes a list of nothing twice
        assert ours(row, text) == theirs(java, row, text), text


def ours(row: ConfigRow, text: str) -> tuple[bool, str]:
    try:
        parse_topic_configs({row.name: text})
        return True, written(row.parse(text))
    except InvalidTopicConfig as refusal:
        return False, reason_of(str(refusal))


def theirs(java: JavaMachine, row: ConfigRow, text: str) -> tuple[bool, str]:
    properties = java.hash_map({row.name: text})
    definition = log_config(java).configDefCopy()
    try:
        log_config(java).validate(properties)
        value = definition.parse(properties)[row.name]
    except Py4JError as failure:
        return False, reason_of(java_failure(failure).java_exception.getMessage())
    kind = get_field(definition.configKeys()[row.name], "type")
    return True, java.classes.org.apache.kafka.common.config.ConfigDef.convertToString(value, kind)


def java_failure(failure: BaseException) -> Py4JJavaError:
    """Where a Spark runs in this process too, pyspark has a look at every failure first, and fails over it itself."""
    while not isinstance(failure, Py4JJavaError):
        assert failure.__context__ is not None, failure
        failure = failure.__context__
    return failure


def reason_of(message: str) -> str:
    """Without the value, which Kafka writes as Java does, lists in brackets and doubles in powers of ten."""
    return message.partition(" for configuration ")[2] or message
