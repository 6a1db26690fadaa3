"""Changes of users asked of this broker and of Apache Kafka: the same answers."""

from pathlib import Path

import pytest

from oracles.apache_kafka import running_apache_kafka
from support.broker.broker_process import BrokerProcess
from support.kafka.kafka_oracles import or_skip
from support.kafka.raw_kafka import Address, RawConnection, address_of
from support.processes.tried import RecordTried
from support.security.scram_changes import SEVERAL_OF_ONE_USER, asked, upsertion

pytestmark = [pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(240)]


def answers(address: Address) -> list[int]:
    with RawConnection(address) as connection:
        connection.ask(asked(upsertions=[upsertion()]), 0)
        rows = [(deletions, upsertions) for deletions, upsertions, _ in SEVERAL_OF_ONE_USER]
        return [connection.ask(asked(*row), 0).results[0].error_code for row in rows]


def test_sa11_several_credentials_of_one_user_in_one_request(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    expected = [code for _, _, code in SEVERAL_OF_ONE_USER]
    with or_skip(running_apache_kafka) as kafka:
        assert answers(address_of(kafka.bootstrap_servers)) == expected
    with BrokerProcess(tmp_path / "store") as ours:
        assert answers(ours.address) == expected
    record_tried("requests", len(expected))
