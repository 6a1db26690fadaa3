"""A broker whose bucket hangs says so, though no request has failed yet, and says when it answers again."""

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from support.broker.broker_process import BrokerProcess
from support.kafka.raw_calls import batch_of, create_topic, produce_well
from support.kafka.raw_kafka import RawConnection

SECONDS_MAX = 60.0
TESTS = Path(__file__).parents[1]


def wait_until(holds: Callable[[], object], broker: BrokerProcess) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, broker.log
        time.sleep(0.02)


def test_a_bucket_that_hangs_is_said_and_its_return_too(tmp_path: Path) -> None:
    folder, hangs = tmp_path / "store", tmp_path / "hangs"
    program = (sys.executable, "-m", "support.faults.hanging_serve", str(folder / "bucket"), str(hangs))
    settings = {"engine.upload.cache_block_age_ms_max": "50ms"}
    environment = os.environ | {"PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"}
    with BrokerProcess(folder, settings, program=program, environment=environment) as broker:
        with RawConnection(broker.address) as client:
            topic = create_topic(client, "t")
            hangs.touch()
            produce_well(client, topic, batch_of())
        wait_until(lambda: "has not answered for" in broker.log, broker)
        hangs.unlink()
        wait_until(lambda: "answers again, after" in broker.log, broker)
        assert broker.stop(SECONDS_MAX) == 0
    said = [line for line in broker.log.splitlines() if f"bucket {(folder / 'bucket').as_uri()} " in line]
    assert len(said) == 2, broker.log
    assert re.search(r"has not answered for \d+\.\d s: \w+ .*\(no answer to the first attempt\)", said[0]), (
        said
    )
