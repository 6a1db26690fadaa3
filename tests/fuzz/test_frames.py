"""Frames as they should not be, against a broker in a process of its own: it lives on, answers everybody else within a
second, keeps within its memory, and what it acknowledged to others is there at the end.

A failure names bursts. Those of another seed, or only some, are sent again by
``FUZZ_SEED=7 FUZZ_BURSTS=120-135 pytest tests/fuzz/test_frames.py -k short``.
"""

import os
import time
from collections import deque
from collections.abc import Container, Iterable
from pathlib import Path
from random import Random
from struct import pack

import pytest

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.compiling.primitives import varint
from siltstone.kafka_protocol.headers import RequestHeader, encode_request_header
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest
from siltstone.model.serving_limits import REQUEST_ELEMENTS_MAX
from support.kafka.frame_mutations import Bombs, Plausible, mutated, valid_frames
from support.kafka.fuzzing import MEBIBYTE, Burst, Siege, read_a_little
from support.kafka.raw_calls import create_topic
from support.kafka.raw_kafka import ConnectionClosed, RawConnection, framed
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried, unrecorded

pytestmark = [pytest.mark.fuzz, pytest.mark.xdist_group("fuzz")]

SEED = 20_261
BURSTS = 750
LINGERING = 25
"""Connections left open behind the newest: long polls and members of groups wait on them."""

LONG_S = 120
LARGE_FRAMES = {
    "network.socket_request_max_bytes": str(100 * MEBIBYTE),
    "network.queued_max_request_bytes": str(128 * MEBIBYTE),
}


def numbers_of_this_run(default: Iterable[int]) -> Iterable[int]:
    chosen = os.environ.get("FUZZ_BURSTS", "")
    if not chosen:
        return default
    first, _, last = chosen.partition("-")
    return range(int(first), int(last or first) + 1)


def bytes_of(burst: Burst, pool: list[bytes], plausible: Plausible) -> bytes:
    """Mostly frames of the right size, sometimes of a wrong one, sometimes none at all."""
    rng = burst.rng
    kind = rng.random()
    if kind < 0.4:
        return b"".join(framed(plausible.frame(rng)) for _ in range(rng.randint(1, 10)))
    if kind < 0.75:
        return b"".join(framed(mutated(rng, pool)) for _ in range(rng.randint(1, 10)))
    if kind < 0.85:
        frame = mutated(rng, pool)
        size = rng.choice((len(frame) + rng.randint(-50, 50), rng.choice((-1, 0, 2**31 - 1, 8 * MEBIBYTE))))
        return pack(">i", size) + frame + framed(rng.choice(pool))
    if kind < 0.9:
        return framed(mutated(rng, pool))[: rng.randint(1, 40)]
    if kind < 0.95:
        return rng.randbytes(rng.randint(1, 2_000))
    return framed(rng.choice(pool)) * rng.randint(2, 100)


class Besieger:
    """Sends bursts, each on a connection of its own, and leaves some connections open."""

    def __init__(self, siege: Siege, seed: int) -> None:
        self._siege, self._seed = siege, seed
        self._lingering: deque[RawConnection] = deque()
        with siege.connect() as connection:
            topics = [create_topic(connection, name, 2) for name in ("fuzz", "fuzz-too", "fuzz-three")]
        self._pool = valid_frames(Random(seed), topics[0], "fuzz-group")
        self._plausible = Plausible(topics, ["fuzz-group", "fuzz-group-too"])

    def send(self, number: int) -> None:
        burst = Burst(self._seed, number)
        self._siege.note = str(burst)
        connection = self._siege.connect()
        try:
            connection.send_bytes(bytes_of(burst, self._pool, self._plausible))
            read_a_little(connection, burst.rng.choice((0.0, 0.001, 0.01)))
        except OSError:
            pass  # it was closed in the middle of it
        self._lingering.append(connection)
        while len(self._lingering) > LINGERING:
            self._lingering.popleft().close()

    def end(self) -> None:
        for connection in self._lingering:
            connection.close()


def besieged(
    folder: Path,
    seed: int,
    numbers: Iterable[int],
    resident_bytes_max: int,
    record_tried: RecordTried = unrecorded,
) -> Siege:
    with Siege(folder, resident_bytes_max=resident_bytes_max) as siege:
        besieger = Besieger(siege, seed)
        for number in numbers:
            if not siege.is_unharmed_so_far:
                break
            besieger.send(number)
            record_tried("bursts of frames", 1)
        besieger.end()
        siege.assert_unharmed()
        return siege


def test_mutated_frames_short(tmp_path: Path) -> None:
    besieged(
        tmp_path, seed_of_this_run("FUZZ_SEED", SEED), numbers_of_this_run(range(BURSTS)), 600 * MEBIBYTE
    )


@pytest.mark.nightly
@pytest.mark.timeout(LONG_S + 300)
def test_mutated_frames_long(tmp_path: Path, record_tried: RecordTried) -> None:
    """Another seed each night, printed."""
    seed = seed_of_this_run("FUZZ_SEED")
    besieged(tmp_path, seed, until_time_is_up(LONG_S), 1_500 * MEBIBYTE, record_tried)


def until_time_is_up(seconds: float) -> Iterable[int]:
    deadline = time.monotonic() + seconds
    number = 0
    while time.monotonic() < deadline:
        yield number
        number += 1


def sent_one_by_one(
    folder: Path,
    chosen: Container[str],
    bytes_max: int,
    elements_max: int,
    *,
    apart: bool,
    record_tried: RecordTried = unrecorded,
) -> None:
    """Valid, and as large as a request may be in its elements: answered, and others are answered meanwhile."""
    with Siege(folder, resident_bytes_max=1_000 * MEBIBYTE) as siege:
        with siege.connect() as connection:
            topic = create_topic(connection, "fuzz", 2)
        for name, frame in Bombs(topic, apart=apart).frames(chosen, bytes_max, elements_max):
            siege.note = name
            with siege.connect(timeout_s=300) as connection:
                connection.send_frame(frame)
                try:
                    connection.receive_frame()
                except ConnectionClosed:
                    pytest.fail(f"no answer to {name}")
            record_tried("frames", 1)
        siege.assert_unharmed()


@pytest.mark.nightly(tried="frames")
def test_frames_of_nothing_but_tagged_fields(tmp_path: Path) -> None:
    """Thirty million of them would hold up everybody for seconds; a frame may have 100 MiB by default."""
    header = encode_request_header(RequestHeader(ApiKey.HEARTBEAT, 4, 1, "tags"))[:-1]
    body = encode(HeartbeatRequest(), 4)[:-1]
    tagged = varint(30_000_000) + b"\x63\x00" * 30_000_000
    element = bytes(16) + b"\x02t" + varint(999) + b"\x63\x00" * 999
    topics = (
        encode_request_header(RequestHeader(ApiKey.METADATA, 12, 1, "tags"))
        + varint(30_001)
        + element * 30_000
    )
    with Siege(tmp_path, resident_bytes_max=1_000 * MEBIBYTE, settings=LARGE_FRAMES) as siege:
        for note, frame in (("header", header + tagged), ("body", header + b"\x00" + body + tagged),
                            ("elements", topics + b"\x00\x00\x00")):  # fmt: skip
            siege.note = f"tagged fields in the {note}"
            with siege.connect(timeout_s=60) as connection:
                connection.send_frame(frame)
                with pytest.raises(ConnectionClosed):
                    connection.receive_frame()
        siege.assert_unharmed()


EVERY = {request.__name__ for request, _ in CATALOGUE.values()}
COSTLIEST = {"DescribeConfigsRequest", "OffsetForLeaderEpochRequest", "ProduceRequest"}
"""A single one of these has stopped everything for seconds."""


@pytest.mark.nightly(tried="requests of elements")
def test_requests_that_are_nothing_but_elements(tmp_path: Path) -> None:
    sent_one_by_one(tmp_path, COSTLIEST, 7 * MEBIBYTE, REQUEST_ELEMENTS_MAX - 10, apart=False)


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("apart", [False, True], ids=["alike", "apart"])
def test_requests_of_every_api_that_are_nothing_but_elements(
    tmp_path: Path, apart: bool, record_tried: RecordTried
) -> None:
    left_out = {"MetadataRequest"} if apart else set()  # it would create a hundred thousand topics
    chosen, elements_max = EVERY - left_out, REQUEST_ELEMENTS_MAX - 10
    bytes_max = (1 if apart else 7) * MEBIBYTE  # those that differ take four times as long
    sent_one_by_one(tmp_path, chosen, bytes_max, elements_max, apart=apart, record_tried=record_tried)


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
def test_arrays_of_more_elements_than_a_request_may_have(tmp_path: Path, record_tried: RecordTried) -> None:
    with Siege(tmp_path) as siege:
        with siege.connect() as connection:
            topic = create_topic(connection, "fuzz", 2)
        bombs = Bombs(topic, apart=False).frames(EVERY, 7 * MEBIBYTE, 2 * REQUEST_ELEMENTS_MAX)
        for name, frame in bombs:
            siege.note = name
            with siege.connect(timeout_s=60) as connection:
                connection.send_frame(frame)
                read_a_little(connection, 60)
            record_tried("frames", 1)
        siege.assert_unharmed()
