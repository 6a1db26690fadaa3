"""Spoilt requests of logins, against a broker in a process of its own: none logs in, the broker lives on, logs no bug,
and lets a client in that has the password.

A failure names its seed, which ``FUZZ_SEED`` replays.
"""

import socket
import ssl
import subprocess
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from aiokafka.conn import ScramAuthenticator

from siltstone.kafka_client.client_settings import settings_of_mapping
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import Security, parse_bootstrap
from siltstone.kafka_client.topics import all_topics
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.kafka_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest
from siltstone.kafka_protocol.notation import Message
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.broker.cluster_clients import until
from support.kafka.raw_kafka import ConnectionClosed, RawConnection, request_bytes
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried
from support.security.attacks import EVE, PASSWORD, TlsConnection
from support.security.realm import running_realm

pytestmark = [pytest.mark.fuzz, pytest.mark.nightly, pytest.mark.xdist_group("fuzz")]

SEED = 20_281
CONNECTIONS = 1_500
REQUESTS_MAX = 6
HELLOS, OPEN_HELLOS = 2_000, 200
BYTES_OF_A_STRANGER_MAX = 200_000
"""What a connection without a login may take at most: the buffers of TLS, twice."""

VERSIONS = ApiVersionsRequest(client_software_name="fuzz", client_software_version="1")
TOKENS = (
    b"n,,n=ada,r=abc",
    b"n,a=ada,n=ada,r=abc",
    b"c=biws,r=abc,p=AAAA",
    b"\0ada\0wrong",
    b"",
    b"\1" * 300,
)


def request_of(rng: Random) -> tuple[Message, int]:
    kind = rng.random()
    if kind < 0.2:
        return VERSIONS, 3
    if kind < 0.5:
        name = rng.choice(["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "", "GSSAPI"])
        return SaslHandshakeRequest(mechanism=name), rng.choice([1, 1, 1, 0])
    if kind < 0.9:
        return SaslAuthenticateRequest(auth_bytes=rng.choice(TOKENS)), rng.randint(0, 2)
    return MetadataRequest(topics=[]), 12


def spoilt(rng: Random, frame: bytes) -> bytes:
    """Half of the frames as they are; others with bytes changed, left out or put in."""
    changed = bytearray(frame)
    for _ in range(rng.choice([0, 0, 0, 1, 2, 8])):
        at = rng.randrange(len(changed)) if changed else 0
        match rng.randrange(3):
            case 0 if changed:
                changed[at] = rng.randrange(256)
            case 1:
                del changed[at : at + rng.randint(1, 4)]
            case _:
                changed[at:at] = rng.randbytes(rng.randint(1, 4))
    return bytes(changed)


def test_sa03_spoilt_logins_log_nobody_in(tmp_path: Path, record_tried: RecordTried) -> None:
    rng, folder = Random(seed_of_this_run("FUZZ_SEED", SEED)), tmp_path / "store"
    sent = answered = 0
    options = ("--listener", "SASL_PLAINTEXT://127.0.0.1:0")
    with BrokerProcess(folder, options=options) as broker:
        added = [SILTSTONE, "users", "add", "ada", "--password-file", "-", "--store", folder]
        subprocess.run(added, input=b"pencil", check=True, capture_output=True)
        for _ in range(CONNECTIONS):
            with (
                RawConnection(broker.address, timeout_s=60) as connection,
                suppress(ConnectionClosed, OSError),
            ):
                for number in range(rng.randint(1, REQUESTS_MAX)):
                    request, version = request_of(rng)
                    frame = spoilt(rng, request_bytes(request, version, number))
                    connection.send_frame(frame)
                    sent += 1
                    answer = connection.receive_frame()
                    answered += 1
                    is_metadata = frame[:4] == b"\0\3\0\x0c"
                    assert not is_metadata, f"it is served without a login: {answer[:40]!r}"
        config = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "ada", "sasl.password": "pencil"}
        security = Security(settings_of_mapping(config, "the test"))
        bootstrap = parse_bootstrap(broker.bootstrap_servers)
        with Cluster(bootstrap, SystemClock(), system_randomness(), security) as cluster:
            assert all_topics(cluster) == []
        assert "Traceback" not in broker.log and "a request failed" not in broker.log
    record_tried("spoilt requests", sent)
    record_tried("answers", answered)


LOGINS = 400


class Login:
    """One login, whose messages a test changes on their way. ``send`` returns the answer's error code and bytes."""

    def __init__(self, connection: RawConnection, mechanism: str) -> None:
        self._connection = connection
        assert connection.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
        self.mechanism = mechanism

    def send(self, message: bytes) -> tuple[int, bytes]:
        answer = self._connection.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
        return answer.error_code, bytes(answer.auth_bytes)

    def is_served(self) -> bool:
        try:
            self._connection.ask(MetadataRequest(topics=[]), 12)
        except (ConnectionClosed, OSError):
            return False
        return True


def scram(login: Login, rng: Random, spoilt_message: int | None) -> bool:
    """Logs in with the right password; ``spoilt_message``: 0 or 1 is spoilt on its way. Returns whether the answers say
    that it has succeeded."""
    client = ScramAuthenticator(
        loop=None, sasl_plain_password="pencil", sasl_plain_username="ada", sasl_mechanism=login.mechanism
    )
    first = client.first_message().encode()
    code, challenge = login.send(surely_spoilt(rng, first) if spoilt_message == 0 else first)
    if code:
        return False
    try:
        client.process_server_first_message(challenge.decode())
        final = client.final_message().encode()
    except Exception:  # the client sees that its name or its nonce was changed
        final = b"c=biws,r=x,p=AAAA"
    code, _ = login.send(surely_spoilt(rng, final) if spoilt_message == 1 else final)
    return code == 0


def surely_spoilt(rng: Random, message: bytes) -> bytes:
    while (changed := spoilt(rng, message)) == message:
        pass
    return changed


def logs_in(broker: BrokerProcess, rng: Random) -> bool:
    with RawConnection(broker.address, timeout_s=60) as connection:
        return scram(Login(connection, "SCRAM-SHA-512"), rng, None)


def test_sa03_whole_logins_spoilt_in_one_message(tmp_path: Path, record_tried: RecordTried) -> None:
    """A login by SCRAM whose proof is spoilt never succeeds. One that is spoilt in its first message may: what the
    client and the broker sign is then the same again, or the broker reads the same name. Whole ones succeed between."""
    rng, folder = Random(seed_of_this_run("FUZZ_SEED", SEED)), tmp_path / "store"
    options = ("--listener", "SASL_PLAINTEXT://127.0.0.1:0")
    let_in = refused = 0
    with BrokerProcess(folder, options=options) as broker:
        added = [SILTSTONE, "users", "add", "ada", "--password-file", "-", "--store", folder]
        subprocess.run(added, input=b"pencil", check=True, capture_output=True)
        until(lambda: logs_in(broker, rng), "the user")
        for number in range(LOGINS):
            mechanism = rng.choice(["SCRAM-SHA-512", "SCRAM-SHA-256"])
            spoilt_message = [None, 0, 1, 1][number % 4]
            succeeded, is_served = False, False
            # The next wrong password of a host waits longer.
            host = f"127.0.{number // 250}.{2 + number % 250}"
            with (
                RawConnection(broker.address, timeout_s=60, host=host) as connection,
                suppress(ConnectionClosed, OSError),
            ):
                login = Login(connection, mechanism)
                succeeded = scram(login, rng, spoilt_message)
                is_served = login.is_served()
            assert is_served is succeeded, f"login {number}"
            if spoilt_message is None:
                assert succeeded, f"login {number}: the right password is refused"
            assert not (spoilt_message == 1 and succeeded), f"login {number}: a spoilt proof is taken"
            let_in, refused = let_in + succeeded, refused + (not succeeded)
        assert "Traceback" not in broker.log and "a request failed" not in broker.log
    record_tried("logins that succeeded", let_in)
    record_tried("logins that were refused", refused)


TOKEN_LOGINS = 300


def test_sa16_whole_logins_with_spoilt_tokens(tmp_path: Path, record_tried: RecordTried) -> None:
    """What is signed is spoilt, so none may be taken: base64 has several texts for the same signature. Whole ones
    succeed between."""
    rng, outcomes = Random(seed_of_this_run("FUZZ_SEED", SEED)), Counter[bool]()
    with running_realm(tmp_path) as realm:
        for number in range(TOKEN_LOGINS):
            is_whole = number % 3 == 0
            signed, _, signature = realm.token().rpartition(".")
            sent = signed.encode() if is_whole else surely_spoilt(rng, signed.encode())
            message = b"n,,\1auth=Bearer " + sent + b"." + signature.encode() + b"\1\1"
            is_served = False
            host = f"127.0.{number // 250}.{2 + number % 250}"
            with (
                TlsConnection(realm.broker.address, timeout_s=60, host=host) as connection,
                suppress(ConnectionClosed, OSError),
            ):
                login = Login(connection, "OAUTHBEARER")
                is_served = login.send(message)[0] == 0 and login.is_served()
            assert is_served is is_whole, f"login {number}: {sent!r}"
            outcomes[is_served] += 1
        assert "Traceback" not in realm.broker.log and "a request failed" not in realm.broker.log
    record_tried("logins with a token that succeeded", outcomes[True])
    record_tried("logins with a token that were refused", outcomes[False])


def client_hello(host: str) -> bytes:
    """The first bytes that a client of TLS sends."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(received, sent, server_hostname=host).do_handshake()
    return sent.read()


def test_tl08_spoilt_handshakes_of_tls_leave_nothing_behind(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """Each is kept open for a while, as many at a time as there may be strangers of a host."""
    rng, folder = Random(seed_of_this_run("FUZZ_SEED", SEED)), tmp_path / "store"
    options = ("--listener", "SASL_SSL://127.0.0.1:0", "--tls-self-signed")
    settings = {"listener.SASL_SSL.sasl_mechanisms": "SCRAM-SHA-512,PLAIN"}
    with BrokerProcess(folder, settings, options=options) as broker:
        added = [SILTSTONE, "users", "add", EVE, "--password-file", "-", "--store", folder]
        subprocess.run(added, input=PASSWORD.encode(), check=True, capture_output=True)
        with TlsConnection(broker.address, timeout_s=60) as connection:
            assert connection.log_in() == 0
        before_bytes, open_ones = broker.resident_bytes, deque[socket.socket]()
        for _ in range(HELLOS):
            with suppress(OSError):
                opened = socket.create_connection(broker.address, timeout=60)
                open_ones.append(opened)
                opened.sendall(spoilt(rng, client_hello("localhost"))[: rng.choice([5, 60, 10_000])])
            if len(open_ones) > OPEN_HELLOS:
                open_ones.popleft().close()
        assert broker.resident_bytes - before_bytes < OPEN_HELLOS * BYTES_OF_A_STRANGER_MAX
        with TlsConnection(broker.address, timeout_s=60) as connection:
            assert connection.log_in() == 0, "a good client gets in between"
        for opened in open_ones:
            opened.close()
        assert "Traceback" not in broker.log and broker.stop() == 0, broker.log
    record_tried("spoilt handshakes of TLS", HELLOS)
