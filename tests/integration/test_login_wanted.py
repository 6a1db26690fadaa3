"""A client that is set up for SASL leaves a line in the log of a broker without a login; an ordinary one does not."""

import re
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from support.broker.broker_process import BrokerProcess
from support.kafka.quiet_client import QUIET

pytestmark = pytest.mark.clients

SECONDS_MAX = 60
SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "someone",
    "sasl.password": "not-for-the-log",
}
LINE = re.compile(
    r"a client at 127\.0\.0\.1 wants to log in \(SASL\), and listener PLAINTEXT has no login: set its "
)


def test_a_client_that_wants_sasl_is_in_the_log_with_what_to_do(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "store") as broker:
        at = {"bootstrap.servers": broker.bootstrap_servers, **QUIET}
        assert AdminClient(at).list_topics(timeout=SECONDS_MAX).brokers
        assert not LINE.search(broker.log)
        client = AdminClient({**at, **SASL})
        deadline = time.monotonic() + SECONDS_MAX
        while not LINE.search(broker.log):
            client.poll(0.05)
            assert time.monotonic() < deadline, broker.log
        assert "not-for-the-log" not in broker.log and "someone" not in broker.log
