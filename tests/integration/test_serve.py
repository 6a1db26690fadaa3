"""``siltstone serve`` in a process of its own, and what ends it."""

import time
from pathlib import Path

from support.broker_process import BrokerProcess, checked_store
from support.raw_calls import batch_of, create_topic, produce_well, read_all
from support.raw_kafka import RawConnection

SEALED_AT_ONCE = {"engine.upload.cache_block_bytes_max": "1", "retry.attempts_max": "1"}
SECONDS_MAX = 10


def test_a_broker_that_can_store_nothing_any_more_ends_so_that_it_is_started_again(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with BrokerProcess(folder, SEALED_AT_ONCE) as broker:
        with RawConnection(broker.address) as connection:
            topic = create_topic(connection, "t")
            bucket = (folder / "bucket").rename(folder / "away")
            (folder / "bucket").write_text("no folder: nothing can be put into it")
            produce_well(connection, topic, batch_of())
        deadline = time.monotonic() + SECONDS_MAX
        while broker.is_alive and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not broker.is_alive
        assert broker.stop() == 1
        last_line = broker.log.splitlines()[-1]
        assert last_line.startswith("siltstone: the stream engine failed: put ")
        (folder / "bucket").unlink()
        bucket.rename(folder / "bucket")
        broker.start()
        with RawConnection(broker.address) as connection:
            assert len(read_all(connection, topic)) == 1
        assert broker.stop() == 0
    assert "clean" in checked_store(folder)
