"""Drivers of sinks killed with SIGKILL at a step of each mode, with brokers that come and go: each record once.

The runs are drawn from a seed, which a failure prints; ``CRASH_SEED`` replays it. A repetition has other rows, as those
of a query that is not deterministic: they count only if the batch had not begun. ``make test`` draws 5, always the
same, and three kills of exports in ``test_tables_killed``; ``test_sinking`` and ``test_loading`` end drivers at each
step, in their own process.
"""

import os
import random
import signal
from pathlib import Path

import pytest

import siltstone
from siltstone.maintenance.checking.check import check
from siltstone.metadata.sinks import SinkState
from siltstone.scanning.source import open_source
from support.maintenance.sink_process import ROWS, SinkProcess, numbers
from support.maintenance.sinks import STEPS, Sink, create, values
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.crash, pytest.mark.timeout(3_600)]

RUNS = 25
RUNS_BY_DAY = 5
SEED_BY_DAY = 390
"""The seed of the daytime. Its runs are of all modes, and a broker starts during one of the copies."""
DURING_COPY = ("intent", "prepared", "copied")


@pytest.mark.nightly
def test_sw2_sw23_killed_drivers_of_all_modes_lose_and_double_nothing(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    kill_drivers(tmp_path, seed_or(random.SystemRandom().randrange(1, 1_000_000)), RUNS, record_tried)


@pytest.mark.nightly
def test_sw2_sw23_some_killed_drivers(tmp_path: Path, record_tried: RecordTried) -> None:
    kill_drivers(tmp_path, seed_or(SEED_BY_DAY), RUNS_BY_DAY, record_tried)


def seed_or(other: int) -> int:
    return int(os.environ.get("CRASH_SEED", "0")) or other


def kill_drivers(folder: Path, seed: int, runs: int, record_tried: RecordTried) -> None:
    print(f"CRASH_SEED={seed}")
    chance, driver = random.Random(seed), SinkProcess(folder)
    broker = siltstone.Broker(driver.store)
    expected: list[int] = []
    with broker:
        create(broker.bootstrap_servers, "t", 2)
    sink = Sink(driver.store, "t")
    raced = 0
    try:
        for batch in range(int(os.environ.get("CRASH_RUNS", runs))):
            mode = chance.choice([*STEPS])
            step = chance.choice(STEPS[mode])
            is_raced = mode == "objects" and step in DURING_COPY and chance.random() < 0.5
            raced += is_raced
            what = f"CRASH_SEED={seed}, batch {batch}: {mode}, {step}{', a broker starts' * is_raced}"
            if mode != "objects" and not broker.addresses:
                broker.start()
            if mode == "objects" and broker.addresses:
                broker.stop()
            first = 1_000 * batch
            if is_raced:
                process = driver.start(batch, first, mode, waits_at=step)
                driver.wait_until_reached(process)
                broker.start()
                assert values(broker.bootstrap_servers, "t", 2) == numbers(expected), (
                    f"{what}: it opens at once"
                )
                if chance.random() < 0.5:
                    process.send_signal(signal.SIGKILL)
                    assert process.wait(300) == -signal.SIGKILL, what
                else:
                    driver.go.touch()
                    assert process.wait(300) == 1 and "StreamNotClosed" in driver.log, (what, driver.log)
            else:
                process = driver.start(batch, first, mode, dies_at=step)
                assert process.wait(300) == -signal.SIGKILL, (what, driver.log)
            standing = sink.standing()
            has_begun = standing is not None and standing.batch_id == batch
            repeated = driver.start(batch, first + 500, None)
            assert repeated.wait(300) == 0, (what, driver.log)
            assert sink.state() is SinkState.DONE, what
            expected += range(first, first + ROWS) if has_begun else range(first + 500, first + 500 + ROWS)
            if broker.addresses:
                assert values(broker.bootstrap_servers, "t", 2) == numbers(expected), what
            else:
                found = siltstone.scan("t", store=driver.store, columns=["value"]).to_arrow()
                assert sorted(found.column("value").to_pylist()) == numbers(expected), what
            record_tried("kills", 1)
    finally:
        broker.stop()
    with open_source(driver.store) as source:
        assert check(source).is_clean
    record_tried("raced by a broker", raced)
    record_tried("records", len(expected))
