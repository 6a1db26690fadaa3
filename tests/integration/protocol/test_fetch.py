"""Fetch over a socket, items 28 and 31 of docs/scenarios.md. Item 33 is in ``test_after_a_crash``, item 8 in
``test_negotiation``; the meaning of requests and answers: ``tests/unit/broker/apis``."""

import time

import pytest

from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from support.kafka.message_oracles import kafka_python_reads, kio_reads
from support.kafka.raw_calls import (
    RawTopic,
    fetch,
    produce_well,
    records_in,
)
from support.kafka.raw_kafka import Address, OracleCheckedConnection, RawConnection

BROKER_SETTINGS: dict[str, str] = {}


# -- 28: the long poll ---------------------------------------------------------------------------------------


def test_item_28_it_ends_when_its_time_has_passed(connection: RawConnection, topic: RawTopic) -> None:
    began = time.monotonic()
    row = fetch(connection, topic, 0, wait_ms=150)

    assert (row.error_code, row.high_watermark) == (0, 0)
    assert time.monotonic() - began >= 0.15


# -- 30, 31: what is in a row --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 7, 11, 12, 16])
def test_item_31_other_libraries_read_what_is_fetched(
    address: Address, topic: RawTopic, version: int
) -> None:
    values = [b"a", b"b" * 1_000, None]
    for reads in (kio_reads, kafka_python_reads):
        with OracleCheckedConnection(address, reads) as connection:
            produce_well(connection, topic, build_batch([Record(key=b"k", value=value) for value in values]))
            row = fetch(connection, topic, 0, version=version)
            found = [None if record.value is None else bytes(record.value) for record in records_in(row)]
            assert found[:3] == values
            ended = fetch(connection, topic, row.high_watermark, version=version)
            assert (ended.error_code, ended.records is not None, len(ended.records)) == (0, True, 0)


# -- 34: sessions --------------------------------------------------------------------------------------------
