"""The first group that a broker is asked about, while the metadata are locked for a while: the client waits."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker.broker_process import BrokerProcess

SECONDS_MAX = 60
LOCKED_SECONDS = 3
"""librdkafka gives up after one answer that says that there is no coordinator, which took half a second."""


def test_a_client_that_asks_for_offsets_waits_until_their_topic_is_there(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "store") as broker:
        at = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient(at)
        admin.create_topics([NewTopic("first", 1, 1)])["first"].result(SECONDS_MAX)
        metadata = tmp_path / "store" / "metadata.sqlite"
        with closing(sqlite3.connect(metadata, isolation_level=None, check_same_thread=False)) as locked:
            locked.execute("BEGIN IMMEDIATE")
            unlock = threading.Timer(LOCKED_SECONDS, locked.execute, ["ROLLBACK"])
            unlock.start()
            try:
                with closing(Consumer({**at, "group.id": "new"})) as consumer:
                    (found,) = consumer.committed([TopicPartition("first", 0)], SECONDS_MAX)
            finally:
                unlock.join()
        assert found.error is None and found.offset == OFFSET_INVALID
