"""Connections of the admin listeners, over sockets; time is manual."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus

import pytest

from siltstone.model.serving_limits import (
    ADMIN_ANSWER_MS_MAX,
    ADMIN_CONNECTIONS_MAX,
    ADMIN_HEAD_BYTES_MAX,
    ADMIN_HEAD_MS_MAX,
)
from siltstone.runtime.clock import ManualClock
from siltstone.server.admin.http_request import HttpAnswer, HttpRequest, RequestRefused
from siltstone.server.admin.http_serving import HttpConnection, HttpConnections, Phase
from support.scenarios import scenario

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
SECONDS_MAX = 60
ENDED = (ConnectionError, asyncio.IncompleteReadError)


class HttpWorld:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.asked: list[HttpRequest] = []
        self.body = b"hello\n"
        self.gate = asyncio.Event()
        self.gate.set()
        self.connections = HttpConnections(self.answer, frozenset({"/a"}), self.clock)

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        self.asked.append(request)
        await self.gate.wait()
        if request.path in ("/refused", "/b", "http://h/a"):
            raise RequestRefused(404, "not here")
        if request.path == "/bug":
            raise ValueError("a bug")
        return HttpAnswer(200, self.body)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, request: bytes) -> bytes:
        """All that is answered until the connection ends."""
        reader, writer = await self.connect()
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), SECONDS_MAX)
        writer.close()
        with suppress(*ENDED):
            await writer.wait_closed()
        return answer

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            while not condition():
                await asyncio.sleep(0.001)


def in_http_world(scenario: Callable[[HttpWorld], Awaitable[None]]) -> None:
    async def main() -> None:
        world = HttpWorld()
        server = await asyncio.get_running_loop().create_server(
            lambda: HttpConnection(world.connections), "127.0.0.1", 0
        )
        world.port = server.sockets[0].getsockname()[1]
        await scenario(world)
        server.close()
        await world.connections.close()
        assert len(world.connections) == 0
        await turns()

    asyncio.run(main())


@scenario(in_http_world)
async def test_a_request_is_answered_and_the_connection_closed(world) -> None:
    head, _, body = (await world.ask(GET)).partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"content-type: text/plain; charset=utf-8",
        b"content-length: 6",
        b"cache-control: no-store",
        b"x-content-type-options: nosniff",
        b"connection: close",
    ]
    assert body == b"hello\n"
    await world.until(lambda: len(world.connections) == 0)


@scenario(in_http_world)
async def test_a_head_request_gets_no_body(world) -> None:
    answer = await world.ask(GET.replace(b"GET", b"HEAD"))
    assert b"content-length: 6" in answer and answer.endswith(b"\r\n\r\n")


@scenario(in_http_world)
async def test_a_request_may_come_byte_by_byte(world) -> None:
    reader, writer = await world.connect()
    for byte in GET:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0)
    assert (await reader.read()).endswith(b"hello\n")
    writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /refused HTTP/1.1\r\nHost: h\r\n\r\n", b"404 Not Found"),
        (b"GET /bug HTTP/1.1\r\nHost: h\r\n\r\n", b"500 Internal Server Error"),
        (b"nonsense\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * ADMIN_HEAD_BYTES_MAX, b"400 Bad Request"),
        (b"\x00" * 100_000, b"400 Bad Request"),
    ],
)
@scenario(in_http_world)
async def test_what_is_wrong_is_said(world, request_bytes: bytes, status: bytes) -> None:
    answer = await world.ask(request_bytes)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.endswith(b"\r\n\r\nnot here\n") == (status == b"404 Not Found")


def head(first: str, *headers: str) -> bytes:
    return "\r\n".join([first, *headers, "", ""]).encode("latin-1")


STRANGE = {
    "no version": (b"GET /\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\n", 405),
    "an absolute target": (head("GET http://h/a HTTP/1.1", "Host: h"), 404),
    "a space in the path": (head("GET /a b HTTP/1.1", "Host: h"), 400),
    "a control character": (head("GET /\x01 HTTP/1.1", "Host: h"), 400),
    "a folded header": (head("GET /b HTTP/1.1", "Host: h", " more"), 404),
    "a space before the colon": (head("GET / HTTP/1.1", "Host : h"), 400),
    "a header without a colon": (head("GET / HTTP/1.1", "Host: h", "what"), 400),
    "a zero byte in a header": (head("GET / HTTP/1.1", "Host: h\x00"), 400),
    "no host": (head("GET / HTTP/1.1"), 400),
    "two hosts": (head("GET / HTTP/1.1", "Host: h", "host: h"), 400),
    "two lengths": (head("GET / HTTP/1.1", "Host: h", "Content-Length: 0, 1"), 400),
    "another method": (head("POST /a HTTP/1.1", "Host: h", "Content-Length: 0"), 405),
    "a hello of TLS": (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
    "a request for a proxy": (head("CONNECT h:443 HTTP/1.1", "Host: h"), 405),
}


@pytest.mark.parametrize("name", STRANGE)
@scenario(in_http_world)
async def test_what_no_ordinary_client_sends_is_answered_by_a_refusal(world, name: str) -> None:
    sent, status = STRANGE[name]
    assert (await world.ask(sent)).startswith(b"HTTP/1.1 %d" % status)
    assert [each.path for each in world.asked] in ([], ["http://h/a"], ["/b"])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("blanks", [" " * 3_000, "\t" * 3_000, " \t" * 1_500], ids=["spaces", "tabs", "both"])
@scenario(in_http_world)
async def test_a_header_of_blanks_is_read_at_once(world, blanks: str) -> None:
    """One pattern for the blanks and the value of a reader of our own took ten minutes, in which nobody was
    answered."""
    assert b" 200 " in await world.ask(head("GET /a HTTP/1.1", "Host: h", f"X:{blanks}h{blanks}"))
    assert b" 400 " in await world.ask(head("GET /a HTTP/1.1", "Host: h", f"X:{blanks}a{blanks}\x00"))


@scenario(in_http_world)
async def test_a_body_is_not_read_into_memory(world) -> None:
    sent = head("GET /a HTTP/1.1", "Host: h", "Content-Length: 5") + b"hello"
    assert (await world.ask(sent)).endswith(b"\r\n\r\nhello\n")


@scenario(in_http_world)
async def test_another_method_is_told_which_there_are(world) -> None:
    answer = await world.ask(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
    assert b"405 Method Not Allowed\r\n" in answer and b"\r\nallow: GET, HEAD\r\n" in answer
    assert world.asked == []


@scenario(in_http_world)
async def test_a_second_request_on_a_connection_is_not_answered(world) -> None:
    assert (await world.ask(GET + GET)).count(b"HTTP/1.1 200") == 1
    assert len(world.asked) == 1


@scenario(in_http_world)
async def test_headers_without_end_take_no_memory(world) -> None:
    reader, writer = await world.connect()
    writer.write(b"GET / HTTP/1.1\r\n")
    for _ in range(200):
        writer.write(b"X: " + b"y" * 10_000)
    answer = await asyncio.wait_for(reader.read(200), SECONDS_MAX)
    assert b" 400 " in answer
    (connection,) = world.connections._open or [None]
    assert connection is None or len(connection.conn.trailing_data[0]) <= 2 * ADMIN_HEAD_BYTES_MAX + 64 * 1024
    writer.transport.abort()


@scenario(in_http_world)
async def test_a_client_that_sends_nothing_is_closed_in_time(world) -> None:
    reader, writer = await world.connect()
    await world.until(lambda: len(world.connections) == 1)
    world.clock.advance_ms(ADMIN_HEAD_MS_MAX - 1)
    writer.write(b"GET / HTTP")  # a byte now and then gains no time
    await writer.drain()
    world.clock.advance_ms(1)
    with pytest.raises(ENDED):
        await asyncio.wait_for(reader.readexactly(1), SECONDS_MAX)
    assert len(world.connections) == 0
    writer.close()


@scenario(in_http_world)
async def test_a_client_that_does_not_read_its_answer_is_closed_in_time(world) -> None:
    world.body = b"x" * 50_000_000
    _, writer = await world.connect()
    writer.write(GET)
    await world.until(lambda: len(world.asked) == 1)
    await asyncio.sleep(0)
    assert len(world.connections) == 1
    world.clock.advance_ms(ADMIN_ANSWER_MS_MAX)
    await world.until(lambda: len(world.connections) == 0)
    writer.transport.abort()


@scenario(in_http_world)
async def test_200_connections_that_send_nothing_keep_nobody_out(world) -> None:
    idle = [await world.connect() for _ in range(200)]
    assert (await world.ask(GET)).endswith(b"hello\n")
    assert len(world.connections) <= ADMIN_CONNECTIONS_MAX
    for _, writer in idle:
        writer.transport.abort()


@scenario(in_http_world)
async def test_requests_that_are_being_answered_are_not_pushed_out(world) -> None:
    world.gate.clear()
    asked = [asyncio.ensure_future(world.ask(GET)) for _ in range(ADMIN_CONNECTIONS_MAX)]
    await world.until(lambda: len(world.asked) == ADMIN_CONNECTIONS_MAX)
    with pytest.raises(ENDED):
        reader, writer = await world.connect()
        await reader.readexactly(1)
    writer.close()
    world.gate.set()
    assert all(answer.endswith(b"hello\n") for answer in await asyncio.gather(*asked))


@scenario(in_http_world)
async def test_a_client_may_end_its_side_when_it_has_asked(world) -> None:
    reader, writer = await world.connect()
    world.gate.clear()
    writer.write(GET)
    writer.write_eof()
    await world.until(lambda: len(world.asked) == 1)
    world.gate.set()
    assert (await reader.read()).endswith(b"hello\n")
    writer.close()


@scenario(in_http_world)
async def test_a_client_that_ends_its_side_while_it_is_answered_gets_the_whole_answer(world) -> None:
    world.body = b"x" * 20_000_000
    reader, writer = await world.connect()
    writer.write(GET)
    await world.until(lambda: any(each.phase is Phase.LINGER for each in world.connections._open))
    writer.write_eof()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len((await reader.read()).partition(b"\r\n\r\n")[2]) == len(world.body)
    writer.close()


@scenario(in_http_world)
async def test_a_refused_head_request_gets_no_body_either(world) -> None:
    answer = await world.ask(b"HEAD /refused HTTP/1.1\r\nHost: h\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404") and answer.endswith(b"\r\n\r\n")


@scenario(in_http_world)
async def test_closing_ends_all_connections_at_once(world) -> None:
    world.gate.clear()
    reader, writer = await world.connect()
    writer.write(GET)
    await world.until(lambda: len(world.asked) == 1)
    await world.connections.close()
    with pytest.raises(ENDED):
        await reader.readexactly(1)
    writer.close()


# -- one connection on a transport that records what is done to it ------------------------------------------


class RecordedTransport:
    """Takes everything at once, and says in which order it was asked for what."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.sent = b""

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        self.done.append("write")
        self.sent += data

    def close(self) -> None:
        self.done.append("close")

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        self.done.append("abort")

    def is_closing(self) -> bool:
        return "abort" in self.done or "close" in self.done


def connected(world: HttpWorld) -> tuple[HttpConnection, RecordedTransport]:
    connection, transport = HttpConnection(world.connections), RecordedTransport()
    connection.connection_made(transport)
    return connection, transport


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("status", [200, 400, 404, 405, 421, 431, 500, 503])
@scenario(in_http_world)
async def test_every_status_has_the_words_of_the_standard(world, status: int) -> None:
    async def answer(_: HttpRequest) -> HttpAnswer:
        return HttpAnswer(status, b"x")

    world.connections.answer = answer
    connection, transport = connected(world)
    connection.data_received(GET)
    await turns()
    assert transport.sent.startswith(f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode())
    assert (b"\r\nallow: " in transport.sent) == (status == 405)


@scenario(in_http_world)
async def test_an_answer_is_sent_whole_and_the_client_has_until_its_time_limit_to_take_it(world) -> None:
    """Nothing the client sends after its request is looked at, whatever it is."""
    connection, transport = connected(world)
    connection.data_received(GET)
    assert connection.phase is Phase.ANSWER
    world.clock.advance_ms(ADMIN_HEAD_MS_MAX)  # the time limit of the request is over with the request
    connection.data_received(GET)
    await turns()
    connection.data_received(GET * 1_000)
    assert transport.done[-1] == "close" and len(world.asked) == 1
    assert transport.sent.endswith(b"hello\n") and connection.phase is Phase.LINGER
    assert not connection.eof_received(), "the client has ended its side, too"
    world.clock.advance_ms(ADMIN_ANSWER_MS_MAX - 1)
    assert len(world.connections) == 1
    world.clock.advance_ms(1)
    await turns()
    assert transport.done[-1] == "abort" and len(world.connections) == 0


@scenario(in_http_world)
async def test_a_client_that_ends_its_side_before_it_has_asked_is_forgotten(world) -> None:
    connection, transport = connected(world)
    connection.data_received(GET[:5])
    assert not connection.eof_received(), "the loop closes it"
    connection.connection_lost(None)
    assert "write" not in transport.done and len(world.connections) == 0


@scenario(in_http_world)
async def test_a_client_that_is_gone_before_its_answer_costs_nothing_more(world) -> None:
    world.gate.clear()
    connection, transport = connected(world)
    connection.data_received(GET)
    assert connection.eof_received(), "it may end its side while it waits"
    await turns()
    connection.connection_lost(None)
    connection.connection_lost(None)
    world.gate.set()
    await turns()
    assert "write" not in transport.done and len(world.connections) == 0
    world.clock.advance_ms(ADMIN_ANSWER_MS_MAX)
    assert "abort" not in transport.done, "its time limit went with it"


def test_an_answer_to_a_client_that_has_given_up_is_no_failure(caplog: pytest.LogCaptureFixture):
    """A scrape ends its connection at its time limit: each scrape of a process that hung, or is slow."""

    async def scenario(world):
        world.gate.clear()
        _, writer = await world.connect()
        writer.write(GET)
        await world.until(lambda: len(world.asked) == 1)
        writer.close()
        await writer.wait_closed()
        world.gate.set()
        await world.until(lambda: len(world.connections) == 0)

    in_http_world(scenario)
    assert caplog.messages == []


@scenario(in_http_world)
async def test_a_head_of_the_largest_size_is_taken_and_a_larger_one_refused(world) -> None:
    filled = b"GET /a HTTP/1.1\r\nHost: h\r\nX: "
    for size, expected in ((ADMIN_HEAD_BYTES_MAX, b" 200 "), (ADMIN_HEAD_BYTES_MAX + 1, b" 400 ")):
        connection, transport = connected(world)
        end = b"\r\n\r\n" if size == ADMIN_HEAD_BYTES_MAX else b""
        connection.data_received(filled + b"x" * (size - len(filled) - len(end)) + end)
        await turns()
        assert expected in transport.sent


@scenario(in_http_world)
async def test_the_oldest_connection_that_is_not_being_answered_makes_room(world) -> None:
    world.gate.clear()
    made = [connected(world) for _ in range(ADMIN_CONNECTIONS_MAX)]
    assert not any(transport.done for _, transport in made) and len(world.connections) == len(made)
    made[0][0].data_received(GET)
    connected(world)
    assert [number for number, (_, transport) in enumerate(made) if transport.done] == [1]
    assert len(world.connections) == ADMIN_CONNECTIONS_MAX


def test_a_bug_is_logged_with_the_path(caplog: pytest.LogCaptureFixture):
    async def scenario(world):
        assert b"the log says why" in await world.ask(b"GET /bug HTTP/1.1\r\nHost: h\r\n\r\n")

    in_http_world(scenario)
    assert "a request for /bug failed" in caplog.text and "ValueError: a bug" in caplog.text
