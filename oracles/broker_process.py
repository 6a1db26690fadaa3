"""A broker as a process of its own, which is started, awaited until it answers, and stopped by its pid. An open port
does not mean much: a broker is ready when it answers ApiVersions, the first request of every client."""

import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

HOST = "127.0.0.1"
START_TIMEOUT_SECONDS = 120  # a JVM on a machine whose cores are busy
STOP_TIMEOUT_SECONDS = 20
API_VERSIONS_REQUEST = struct.pack(
    ">ihhih", 10, 18, 0, 1, -1
)  # size, key, version, correlation, no client id


class BrokerNotStarted(Exception):
    """The broker ended, or does not answer; the text ends with the end of its log."""


class BrokerProcess(msgspec.Struct, frozen=True):
    bootstrap_servers: str
    pid: int
    log: Path


@contextmanager
def running_broker(
    command: Sequence[str], port: int, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[BrokerProcess]:
    """``port`` is the port of 127.0.0.1 that clients connect to. ``environment`` is added to ours. Raises
    BrokerNotStarted."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            env={**os.environ, **(environment or {})},
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        _wait_until_it_answers(process, port, log)
        yield BrokerProcess(f"{HOST}:{port}", process.pid, log)
    finally:
        _stop(process)


def free_ports(count: int) -> list[int]:
    """Returns ports that all differ, because they are bound at the same time. The broker binds them a moment later."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + START_TIMEOUT_SECONDS
    while not _answers(port):
        if process.poll() is not None:
            raise BrokerNotStarted(f"it ended with status {process.returncode}: {_last_words(log)}")
        if time.monotonic() > give_up:
            raise BrokerNotStarted(f"no answer within {START_TIMEOUT_SECONDS} s: {_last_words(log)}")
        time.sleep(0.02)


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), timeout=2) as connection:
        connection.sendall(API_VERSIONS_REQUEST)
        return len(connection.recv(8)) > 0
    return False


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
