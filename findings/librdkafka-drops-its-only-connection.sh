#!/usr/bin/env bash
# What    confluent-kafka 2.16.1 (PyPI, librdkafka 2.16.0): get_watermark_offsets(partition, timeout) ends long before its time limit.
# Guess   A call with a time limit of 20 s waits out a broker that has no room for another connection for two seconds.
# Seen    The client has one connection, at which the broker answers. As soon as Metadata names the broker, librdkafka gives that
#         connection up (_DESTROY_BROKER) and opens another one to the same address. If the broker closes that one at once, as at its
#         limit of connections or files, the call fails after some milliseconds, with _DESTROY_BROKER or _TRANSPORT. The same call is
#         answered when the broker has room again.
# So      The caller repeats the call itself. A broker at its limit is no place for a first client either: each needs two connections.
# Source  librdkafka, src/rdkafka_broker.c of that version, the log line "Decommissioning this broker".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "confluent-kafka==2.16.1"
"$folder/venv/bin/python" - <<'PY'
import socket
import struct
import threading
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

LIST_OFFSETS, METADATA, API_VERSIONS = 2, 3, 18
RANGES = {0: (0, 3), 1: (0, 4), LIST_OFFSETS: (0, 1), METADATA: (0, 2), 10: (0, 0), API_VERSIONS: (0, 3)}
FULL_SECONDS, LIMIT_SECONDS = 2, 20


def text(words: str) -> bytes:
    return struct.pack(">h", len(words)) + words.encode()


def answer(api: int) -> bytes:
    """A broker without records: node 0 leads partition 0 of the topic t."""
    if api == API_VERSIONS:
        rows = b"".join(struct.pack(">hhhb", key, low, high, 0) for key, (low, high) in RANGES.items())
        return struct.pack(">hb", 0, len(RANGES) + 1) + rows + struct.pack(">ib", 0, 0)
    if api == METADATA:
        broker = struct.pack(">i", 0) + text("127.0.0.1") + struct.pack(">ih", port, -1)
        partition = struct.pack(">hii", 0, 0, 0) + struct.pack(">ii", 1, 0) * 2
        topic = struct.pack(">h", 0) + text("t") + b"\0" + struct.pack(">i", 1) + partition
        return struct.pack(">i", 1) + broker + text("c") + struct.pack(">ii", 0, 1) + topic
    partition = struct.pack(">ihqq", 0, 0, -1, 0)
    return struct.pack(">i", 1) + text("t") + struct.pack(">i", 1) + partition


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += (more := connection.recv(count - len(data)))
        if not more:
            raise ConnectionError
    return data


def serve(connection: socket.socket) -> None:
    try:
        while True:
            frame = exactly(connection, *struct.unpack(">i", exactly(connection, 4)))
            api, _, correlation = struct.unpack(">hhi", frame[:8])
            if api in (LIST_OFFSETS, METADATA, API_VERSIONS):
                body = struct.pack(">i", correlation) + answer(api)
                connection.sendall(struct.pack(">i", len(body)) + body)
    except OSError:
        pass


def accept() -> None:
    first: float | None = None
    while True:
        connection, _ = server.accept()
        if first is not None and time.monotonic() - first < FULL_SECONDS:
            connection.close()
        else:
            first = first or time.monotonic()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
threading.Thread(target=accept, daemon=True).start()
consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "g", "log_level": 0})
began = time.monotonic()
try:
    consumer.get_watermark_offsets(TopicPartition("t", 0), LIMIT_SECONDS)
    ended = "was answered"
except KafkaException as failed:
    ended = f"failed: {failed.args[0].name()}"
seconds = time.monotonic() - began
print(f"the broker has no room for {FULL_SECONDS} s; the call with {LIMIT_SECONDS} s {ended}, after {seconds:.2f} s")
time.sleep(FULL_SECONDS + 1)
print("the same call then:", consumer.get_watermark_offsets(TopicPartition("t", 0), LIMIT_SECONDS))
assert ended != "was answered" and seconds < FULL_SECONDS, "the call waits now: this finding is out of date"
PY
echo "seen again"
