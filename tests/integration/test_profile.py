"""``make profile``: samples are given to whom they belong, and a short run of all of it says something."""

from pathlib import Path

import pytest

import siltstone
from benchmarks import profile
from benchmarks.support.samples import (
    OF_THE_LOOP,
    RUNNERS_OF_THE_LOOP,
    SOCKETS,
    functions,
    parse_samples,
    place_of,
    places,
)
from support.processes.tried import RecordTried

LOOP = "thread (7): MainThread;serve (siltstone/cli/serve/command.py:70);run (siltstone/server/python_process.py:24)"
RUNNER = "Runner.run (asyncio/runners.py:118)"
WORKER = "thread (8): wal_0;Thread.run (threading.py:9);_worker (concurrent/futures/thread.py:81)"
RAW = f"""\
{LOOP};{RUNNER} 100
{LOOP};{RUNNER};Connection.received (siltstone/server/network/connection.py:1) 10
{LOOP};{RUNNER};Connection._send (siltstone/server/network/connection.py) 20
{LOOP};{RUNNER};handle (siltstone/broker/broker.py);read (siltstone/kafka_protocol/headers.py:3);unpack (struct.py:4) 30
{LOOP};{RUNNER};handle (siltstone/broker/broker.py:9);encode (<ProduceResponse v10 encoder>) 5
{WORKER} 999
{WORKER};<lambda> (siltstone/runtime/blocking.py:37);sync (siltstone/stream_engine/wal/segment_file.py:5) 40
"""


def test_time_belongs_to_the_package_that_asked_for_it_and_to_threads_by_name() -> None:
    assert places(parse_samples(RAW)) == {
        OF_THE_LOOP: 100, "network": 10, SOCKETS: 20, "protocol": 30, "broker": 5, "thread: wal": 40,
    }  # fmt: skip


def test_the_files_that_run_the_loop_exist() -> None:
    """Or time on the loop would be that of the server."""
    source = Path(siltstone.__file__).parents[1]
    assert [file for file in RUNNERS_OF_THE_LOOP if not (source / file).exists()] == []


def test_who_waits_for_work_is_left_out() -> None:
    assert sum(each.count for each in parse_samples(RAW)) == 205


def test_functions_are_those_that_ran() -> None:
    (first, *_), counted = functions(parse_samples(RAW)).most_common(), functions(parse_samples(RAW))
    assert first == ("Runner.run (asyncio/runners.py)", 100)
    assert counted["sync (siltstone/stream_engine/wal/segment_file.py)"] == 40
    assert counted["unpack (struct.py)"] == 30


def test_a_broker_inside_a_program_has_its_loop_elsewhere() -> None:
    (sample,) = parse_samples("thread (1): siltstone-broker;BrokerThread._run (siltstone/server/x.py:1) 3")
    assert place_of(sample) == "server"


@pytest.mark.nightly
def test_a_short_run_tells_of_produce_and_fetch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], record_tried: RecordTried
) -> None:
    record_tried("profiles", 1)
    monkeypatch.setattr(profile, "BATCH_BYTES", (16 * 1024,))
    monkeypatch.setattr(profile, "EDGE_SECONDS", 0.5)
    assert profile.main(2) == 0
    said = capsys.readouterr().out
    for words in (
        "produce, batches of 16 KiB",
        "fetch, batches of 16 KiB",
        "event loop: waiting",
        "thread: wal",
    ):
        assert words in said
    assert OF_THE_LOOP in said and "%" in said
