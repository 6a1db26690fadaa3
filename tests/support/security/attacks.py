"""What somebody does who wants to do harm: at listeners with TLS and a login, without a password, or as a user.

Each attack runs in a process of its own until it is ended, so that it does not take the time of the test that measures.
``ATTACKS`` has them by the row of docs/scenarios.md; some come without a login, some as the user EVE.
"""

import multiprocessing
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from struct import pack

from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.kafka_protocol.messages.list_transactions import ListTransactionsRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.kafka_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest
from support.kafka.batch_mutations import bomb
from support.kafka.raw_calls import RawTopic, fetch_request, produce_request
from support.kafka.raw_kafka import Address, ConnectionClosed, RawConnection, framed

EVE, PASSWORD = "eve", "knows-her-own"
FULL_TOPIC, LARGE_TOPIC = "full", "large"
STRANGERS = 1_000


class TlsConnection(RawConnection):
    """A client of bytes over TLS. It takes any certificate: who attacks does not care."""

    def __init__(self, address: Address, *, timeout_s: float = 20.0, host: str = "") -> None:
        super().__init__(address, timeout_s=timeout_s, host=host)
        self._socket = _any_certificate().wrap_socket(self._socket)

    def log_in(self, user: str = EVE, password: str = PASSWORD) -> int:
        """Logs in by PLAIN and returns the error code."""
        self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = f"\0{user}\0{password}".encode()
        return int(self.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code)


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


Attack = Callable[[Address, Random], None]
"""One round of an attack; it is repeated. What the broker does to the connection is all the same."""


def tagged_fields(address: Address, _: Random) -> None:
    header = pack(">hhi", 18, 3, 1) + pack(">h", 1) + b"c" + b"\x88\x27" + b"\x01\0" * 5_000
    with TlsConnection(address) as connection:
        connection.send_frame(header)
        connection.receive_frame()


def claimed_counts(address: Address, _: Random) -> None:
    with TlsConnection(address) as connection:
        connection.log_in()
        connection.send_frame(pack(">hhih", 3, 1, 1, -1) + pack(">i", 2**31 - 1) + bytes(1_000))
        connection.receive_frame()


def claimed_frames(address: Address, _: Random) -> None:
    connections = [TlsConnection(address) for _ in range(50)]
    for connection in connections:
        with suppress(OSError, ConnectionClosed):
            connection.log_in()
            connection.send_bytes(pack(">i", 100 << 20) + bytes(60_000))
    time.sleep(0.5)
    for connection in connections:
        connection.close()


def bombs(address: Address, rng: Random) -> None:
    request = produce_request(RawTopic(FULL_TOPIC), {0: bytes(bomb(rng))})
    with TlsConnection(address) as connection:
        connection.log_in()
        for _ in range(20):
            connection.ask(request, 9)


def tricklers(address: Address, _: Random) -> None:
    connections = [TlsConnection(address) for _ in range(200)]
    for _ in range(10):
        for connection in connections:
            with suppress(OSError):
                connection.send_bytes(b"\0")
        time.sleep(0.3)
    for connection in connections:
        connection.close()


def handshakes(address: Address, _: Random) -> None:
    TlsConnection(address).close()


def unread_answers(address: Address, _: Random) -> None:
    request = fetch_request(RawTopic(LARGE_TOPIC), {0: 0}, wait_ms=100, bytes_max=50 << 20)
    connections = [TlsConnection(address) for _ in range(10)]
    for connection in connections:
        connection.log_in()
        for _ in range(100):
            connection.send(request, 11)
    time.sleep(2)
    for connection in connections:
        connection.close()


def topics_without_end(address: Address, rng: Random) -> None:
    with TlsConnection(address) as connection:
        connection.log_in()
        for _ in range(20):
            topics = [
                CreatableTopic(name=f"t{rng.randrange(1 << 60)}", num_partitions=100, replication_factor=1)
                for _ in range(5)
            ]
            connection.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)


def patterns(address: Address, _: Random) -> None:
    with TlsConnection(address) as connection:
        connection.log_in()
        for _ in range(50):
            pattern = "(a+)+" * 100
            connection.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)


def telemetry(address: Address, _: Random) -> None:
    with TlsConnection(address) as connection:
        connection.log_in()
        connection.send_frame(pack(">hhih", 72, 0, 1, -1) + b"\0" + bytes(1_000_000))
        connection.receive_frame()


def strangers(address: Address, _: Random) -> None:
    connections = [TlsConnection(address) for _ in range(STRANGERS)]
    time.sleep(2)
    for connection in connections:
        connection.close()


def wrong_passwords(address: Address, rng: Random) -> None:
    connections = [TlsConnection(address) for _ in range(100)]
    for connection in connections:
        connection.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = f"\0user-{rng.randrange(10)}\0wrong".encode()
        connection.send(SaslAuthenticateRequest(auth_bytes=token), 2)
    for connection in connections:
        with suppress(OSError, ConnectionClosed):
            connection.receive()
            connection.receive()
        connection.close()


def requests_without_end(address: Address, _: Random) -> None:
    with TlsConnection(address) as connection:
        connection.log_in()
        frame = framed(pack(">hhih", 3, 12, 1, -1) + b"\0" + encode(MetadataRequest(topics=[]), 12))
        for _ in range(50):
            connection.send_bytes(frame * 40)
            for _ in range(40):
                connection.receive_frame()


ATTACKS: dict[str, tuple[str, Attack]] = {
    "AB01": ("5,000 tagged fields in a header, without a login", tagged_fields),
    "AB02": ("an array of 2³¹−1 elements", claimed_counts),
    "AB03": ("50 connections that claim 100 MiB each", claimed_frames),
    "AB04": ("little that decompresses to up to 140 MiB", bombs),
    "AB05": ("200 peers that send a byte now and then", tricklers),
    "AB06": ("TLS handshakes, one after the other", handshakes),
    "AB07": ("10 clients that ask for 100 MB each and read nothing", unread_answers),
    "AB08": ("topics without end", topics_without_end),
    "AB10": ("patterns that make Python's `re` slow", patterns),
    "AB11": ("PushTelemetry of a megabyte", telemetry),
    "SA07": ("1,000 connections without a login", strangers),
    "AB15": ("wrong passwords by PLAIN, 100 at a time", wrong_passwords),
    "QU11": ("a flood of requests, without a quota", requests_without_end),
}
"""Row of docs/scenarios.md → what is done, and the attack."""


def _repeat(name: str, address: Address, seed: int) -> None:
    rng = Random(seed)
    while True:
        with suppress(OSError, ConnectionClosed):
            ATTACKS[name][1](address, rng)


@contextmanager
def under_attack(name: str, address: Address, seed: int) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(
        target=_repeat, args=(name, address, seed), daemon=True
    )
    process.start()
    try:
        yield
        assert process.is_alive(), f"the attack {name} has ended by itself"
    finally:
        process.terminate()
        process.join()
