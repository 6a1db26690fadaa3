"""Real clients on a compacted topic: from the beginning, from offsets that are gone, over batches without records and
over a hole of a hundred thousand offsets, to the end (K3, K20, K21, G28)."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import KafkaError, Message, Producer

import siltstone
from oracles.java_clients import running_java_clients
from siltstone.kafka_protocol.batch_header import read_batch_header
from siltstone.offline.topic_streams import topic_streams
from support.kafka.consume_to_end import CLIENTS
from support.kafka.kafka_batches import bytes_of_records
from support.kafka.kafka_oracles import or_skip
from support.kafka.raw_calls import RawTopic, create_topic, fetch, list_offset
from support.kafka.raw_kafka import RawConnection, address_of
from support.maintenance.compacted_store import maintained, split_and_compact
from support.processes.cli import run

TOPIC = "compacted"
HOLE = 100_000
OFFSETS = [0, 5, 50_000, HOLE + 9, HOLE + 11]
TESTS = Path(__file__).parents[1]
SECONDS_MAX = 60.0

Found = tuple[int, bytes | None, bytes | None]


class Compacted(msgspec.Struct, frozen=True):
    """A broker with the topic as it is after compaction. ``records`` are those that are left, ``end`` the high
    watermark; the last batch before it is empty."""

    folder: Path
    servers: str
    records: list[Found]
    end: int

    def since(self, offset: int) -> list[Found]:
        return [record for record in self.records if record[0] >= offset]


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compacted]:
    folder = tmp_path_factory.mktemp("compacted")
    with siltstone.Broker(folder) as broker:
        written = _write(broker.bootstrap_servers)
        broker.flush()
        split_and_compact(folder)
    split_and_compact(folder, hours_ahead=1)  # tombstones whose time is over go
    newest = {key: offset for offset, key, _ in written}
    left = [record for record in written if newest[record[1]] == record[0] and record[2] is not None]
    with siltstone.Broker(folder) as broker:
        yield Compacted(folder, broker.bootstrap_servers, left, len(written))


def _write(servers: str) -> list[Found]:
    """Everything that was produced, by offset."""
    configs = {"cleanup.policy": "compact", "delete.retention.ms": "0"}
    with RawConnection(address_of(servers)) as connection:
        create_topic(connection, TOPIC, configs=configs)
    many = [(b"k%d" % number, b"second") for number in range(10)]
    written = _produce(servers, [(key, b"first") for key, _ in many], {"enable.idempotence": True})
    written += _produce(
        servers, [(b"x", b"%d" % number) for number in range(HOLE)], {"compression.type": "lz4"}
    )
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        pairs = [
            (f"{codec}-{number % 5}".encode(), f"{codec} {number}".encode() * 20) for number in range(50)
        ]
        written += _produce(servers, pairs, {"compression.type": codec})
    written += _produce(servers, many, {"enable.idempotence": True})
    written += _produce(servers, [(b"gone", b"soon")])
    return written + _produce(servers, [(b"gone", None)])


def _produce(
    servers: str, pairs: list[tuple[bytes, bytes | None]], configs: dict[str, object] | None = None
) -> list[Found]:
    written: list[Found] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        written.append((message.offset(), message.key(), message.value()))

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "queue.buffering.max.messages": HOLE,
            **(configs or {}),
        }
    )
    for key, value in pairs:
        producer.produce(TOPIC, value=value, key=key, on_delivery=delivered)
    assert producer.flush(SECONDS_MAX) == 0
    return sorted(written)


def test_sr22_a_scan_gives_the_newest_record_of_each_key_at_its_offset(compacted: Compacted) -> None:
    scan = siltstone.scan(TOPIC, store=compacted.folder, columns=["offset", "key", "value"])
    assert [tuple(row.values()) for row in scan.to_arrow().to_pylist()] == compacted.records
    (cut,) = scan.plan.cuts
    assert (cut.start_offset, cut.end_offset) == (0, compacted.end)


# -- clients: from offsets to the end of the partition ---------------------------------------------------------


@pytest.fixture(scope="module")
def consumed(compacted: Compacted) -> "Consumed":
    return Consumed(compacted)


class Consumed(dict[str, dict[int, list[Found]]]):
    """By client, by the offset it began at: each client is asked once, for all of them."""

    def __init__(self, compacted: Compacted) -> None:
        super().__init__()
        self._compacted = compacted

    def __missing__(self, client: str) -> dict[int, list[Found]]:
        of = self._compacted
        offsets = [*OFFSETS, of.end - 1]
        command = [client, of.servers, TOPIC, str(of.end), *map(str, offsets)]
        done = subprocess.run(
            [sys.executable, "-m", "support.kafka.consume_to_end", *command],
            env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        self[client] = {
            int(offset): [(at, _bytes(key), _bytes(value)) for at, key, value in rows]
            for offset, rows in json.loads(done.stdout).items()
        }
        return self[client]


def _bytes(digits: str | None) -> bytes | None:
    return None if digits is None else bytes.fromhex(digits)


# -- what they find ------------------------------------------------------------------------------------------


def test_what_is_left_of_it(compacted: Compacted) -> None:
    """So that the tests below are about something: a hole, and batches of nothing, the last of them before the end."""
    offsets = [-1, *(offset for offset, _, _ in compacted.records), compacted.end]
    assert max(after - before for before, after in itertools.pairwise(offsets)) > HOLE
    with RawConnection(address_of(compacted.servers)) as connection:
        counts = _record_counts(connection, compacted.end)
    assert counts[0] == (9, 0), "the first producer's last batch is kept for its sequence numbers"
    assert counts[-1] == (compacted.end - 1, 0), "nothing may be empty before the high watermark"


def _record_counts(connection: RawConnection, end: int) -> list[tuple[int, int]]:
    """(last offset, records) of each batch, walked over as a consumer does."""
    counts: list[tuple[int, int]] = []
    offset = 0
    while offset < end:
        row = fetch(connection, RawTopic(TOPIC), offset, version=12)
        data, position = bytes_of_records(row), 0
        assert data, f"an empty answer at {offset}, below {end}"
        while position < len(data):
            header = read_batch_header(data[position:])
            counts.append((header.last_offset, header.record_count))
            position += header.size_bytes
            offset = header.last_offset + 1
    return counts


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_from_every_offset_to_the_end(compacted: Compacted, consumed: Consumed, client: str) -> None:
    """Over the hole (K21), from offsets that are gone (K3), from the empty batch at the end (K20)."""
    found = consumed[client]
    for offset in OFFSETS:
        assert found[offset] == compacted.since(offset), offset
    assert found[compacted.end - 1] == []


def test_k3_at_the_end_and_beyond(compacted: Compacted) -> None:
    with RawConnection(address_of(compacted.servers)) as connection:
        at_end = fetch(connection, RawTopic(TOPIC), compacted.end, version=12, wait_ms=0)
        beyond = fetch(connection, RawTopic(TOPIC), compacted.end + 1, version=12, wait_ms=0)
    assert (at_end.error_code, bytes_of_records(at_end)) == (0, b"")
    assert beyond.error_code == 1, "OFFSET_OUT_OF_RANGE"


def test_offsets_are_listed_as_before(compacted: Compacted) -> None:
    with RawConnection(address_of(compacted.servers)) as connection:
        topic = RawTopic(TOPIC)
        assert list_offset(connection, topic, -2).offset == 0, (
            "the earliest one is the start, whatever is left"
        )
        assert list_offset(connection, topic, -1).offset == compacted.end
        first = list_offset(connection, topic, 0)
        assert first.offset == compacted.records[0][0]
        newest = list_offset(connection, topic, -3)
        assert newest.offset in {offset for offset, _, _ in compacted.records}


@pytest.mark.parametrize("offset", OFFSETS)
def test_tail_finds_what_is_left(compacted: Compacted, offset: int) -> None:
    shown = run("tail", TOPIC, "--from", offset, "--until-end", "--offsets", "--bootstrap", compacted.servers)
    assert shown.status == 0, shown.err
    offsets = [int(line.split()[0].removeprefix("0:")) for line in shown.out.splitlines()]
    assert offsets == [offset for offset, _, _ in compacted.since(offset)]


@pytest.mark.parametrize("count", [7, 40])
def test_tail_of_the_last_records_whatever_lies_between(compacted: Compacted, count: int) -> None:
    """Forty: more than there are behind the hole."""
    shown = run("tail", TOPIC, "--last", count, "--until-end", "--offsets", "--bootstrap", compacted.servers)
    assert shown.status == 0, shown.err
    offsets = [int(line.split()[0].removeprefix("0:")) for line in shown.out.splitlines()]
    assert offsets == [offset for offset, _, _ in compacted.records[-count:]]


def test_objects_without_records_are_inspected_and_checked(compacted: Compacted) -> None:
    with maintained(compacted.folder) as context:
        (stream_id,) = [
            each.stream_id
            for each in topic_streams(context.metadata.image).values()
            if each.is_compacted and each.topic.name == TOPIC
        ]
        ids = [held.object_id for held in context.metadata.image.streams[stream_id].ranges]
    batches = []
    for object_id in ids:
        shown = run("inspect", object_id, "--blocks", "--json", "--store", compacted.folder)
        assert shown.status == 0, shown.err
        batches += [batch for block in shown.json["blocks"] for batch in block["batches"]]
        assert run("inspect", object_id, "--blocks", "--store", compacted.folder).status == 0
    assert [batch["record_count"] for batch in batches][-1] == 0
    checked = run("check", "--store", compacted.folder)
    assert checked.status == 0, checked.out


@pytest.mark.kafka
def test_java_consumes_it_all(compacted: Compacted) -> None:
    with or_skip(lambda: running_java_clients(compacted.servers)) as clients:
        received = clients.consume(TOPIC, len(compacted.records))
    assert [(one.offset, one.key, one.value) for one in received] == compacted.records


def test_librdkafka_fails_the_records_without_a_key_and_tells_the_others_apart(tmp_path: Path) -> None:
    """As librdkafka's own test 0011: the others of the batch may be sent again."""
    codes: dict[int, int] = {}
    with siltstone.Broker(tmp_path) as broker:
        with RawConnection(address_of(broker.bootstrap_servers)) as connection:
            create_topic(connection, TOPIC, configs={"cleanup.policy": "compact"})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5_000})
        for number in range(100):
            producer.produce(
                TOPIC, b"v", None if number % 10 == 5 else b"k",
                on_delivery=lambda error, _, number=number: codes.update({number: error.code()}),
            )  # fmt: skip
        assert producer.flush(SECONDS_MAX) == 0
    without_key = [number for number in range(100) if number % 10 == 5]
    assert [
        number for number, code in sorted(codes.items()) if code == KafkaError.INVALID_RECORD
    ] == without_key
    assert [*codes.values()].count(KafkaError._INVALID_DIFFERENT_RECORD) == 90
