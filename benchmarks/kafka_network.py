"""(f) Requests of one connection, encoded beforehand, with several in flight; the server computes the CRC of each and
answers 52 bytes, as a broker that stores nothing would. Beside it the same with asyncio's streams, the plain way.

The server has a process of its own, so that its CPU can be told from the client's.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from struct import Struct

import msgspec

from benchmarks.support.report import Row, at_least
from siltstone.broker.request import ConnectionContext
from siltstone.foundation.crc32c import crc32c
from siltstone.model.buffers import Buffer
from siltstone.runtime.clock import SystemClock
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.network.listeners import Listeners
from siltstone.server.network.settings import NetworkSettings
from siltstone.server.python_process import run as run_on_event_loop

TITLE = "(f) The network of the broker: one connection, requests with a CRC, beside asyncio's streams on the same loop"
SIZE = Struct(">i")
ANSWER = SIZE.pack(48) + bytes(48)
BYTES_MAX, REQUESTS_MAX = 2 << 30, 200_000
ROUNDS = 3


class Load(msgspec.Struct, frozen=True):
    name: str
    request_bytes: int
    in_flight: int
    aim: float

    @property
    def requests(self) -> int:
        return min(REQUESTS_MAX, BYTES_MAX // self.request_bytes)


class Result(msgspec.Struct, frozen=True):
    """``processor_seconds``: the CPU time of the server."""

    requests: int
    seconds: float
    processor_seconds: float


LOADS = [
    Load("1 KiB, 64 in flight", 1 << 10, 64, 2.5),
    Load("1 KiB, 4 in flight", 1 << 10, 4, 1.2),
    Load("16 KiB, 32 in flight", 16 << 10, 32, 1.5),
    Load("128 KiB, 8 in flight", 128 << 10, 8, 1.3),
    Load("1 MiB, 4 in flight", 1 << 20, 4, 2.0),
]


def run() -> list[Row]:
    return [row for load in LOADS for row in _rows(load)]


def _rows(load: Load) -> list[Row]:
    """Returns the best of some rounds: other work of the machine only makes a round slower."""
    pairs = [(_measure("ours", load), _measure("streams", load)) for _ in range(ROUNDS)]
    ours, plain = (
        min(results, key=lambda result: result.processor_seconds) for results in zip(*pairs, strict=True)
    )
    megabytes = max(pair[0].requests * load.request_bytes / pair[0].seconds for pair in pairs) / 1e6
    micros, plain_micros = (result.processor_seconds / result.requests * 1e6 for result in (ours, plain))
    return [
        at_least(f"{load.name}: CPU of streams / ours", plain_micros / micros, load.aim, "×"),
        Row("", f"{micros:.1f} µs/request", f"streams {plain_micros:.1f}"),
        Row("", f"{megabytes:,.0f} MB/s"),
    ]


# -- the client


def _measure(server: str, load: Load) -> Result:
    command = [sys.executable, "-m", "benchmarks.kafka_network", server]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with (
        process.stdout,
        socket.create_connection(("127.0.0.1", int(process.stdout.readline()))) as connection,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started = time.perf_counter()
        _replay(connection, load)
        seconds = time.perf_counter() - started
        connection.close()
        process.send_signal(signal.SIGTERM)
        processor_seconds = float(process.stdout.readline())
    process.wait()
    return Result(load.requests, seconds, processor_seconds)


def _replay(connection: socket.socket, load: Load) -> None:
    request = SIZE.pack(load.request_bytes - SIZE.size) + os.urandom(load.request_bytes - SIZE.size)
    burst = max(1, min(load.in_flight // 2, (1 << 20) // load.request_bytes))
    requests = memoryview(request * burst)
    sent = answered_bytes = 0
    buffer = bytearray(1 << 16)
    while answered_bytes < load.requests * len(ANSWER):
        while sent < load.requests and sent + burst <= answered_bytes // len(ANSWER) + load.in_flight:
            now = min(burst, load.requests - sent)
            connection.sendall(requests[: now * load.request_bytes])
            sent += now
        received = connection.recv_into(buffer)
        assert received, "the server has closed the connection"
        answered_bytes += received


# -- the servers


class CheckingHandler:
    wants_pause = False

    def handle(self, _: ConnectionContext, frame: memoryview) -> list[Buffer]:
        crc32c([frame])
        return [ANSWER]

    def connection_closed(self, connection: ConnectionContext) -> None:
        return None


async def _ours() -> None:
    listeners = Listeners(
        parse_addresses(["127.0.0.1:0"]), CheckingHandler(), NetworkSettings(), SystemClock()
    )
    await listeners.start()
    await _serve(listeners.listeners[0].advertised_port)
    await listeners.close()


async def _streams() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
                crc32c([await reader.readexactly(size)])
                writer.write(ANSWER)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 20)
    await _serve(server.sockets[0].getsockname()[1])
    server.close()


async def _serve(port: int) -> None:
    """Prints the port; when its input ends, prints the CPU time since then."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    started = time.process_time()
    print(port, flush=True)
    await stopping.wait()
    print(time.process_time() - started, flush=True)


if __name__ == "__main__":
    run_on_event_loop(_ours() if sys.argv[1] == "ours" else _streams())
