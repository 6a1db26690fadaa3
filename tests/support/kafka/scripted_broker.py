"""A server on a port of this machine that gives the answers of a script, one connection after another."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.headers import RequestHeader, decode_request_header, response_prefix
from siltstone.kafka_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.notation import Message

Answerer = Callable[[RequestHeader, Message], Message | bytes | None]
"""Request → answer; bytes are sent as they are; None closes the connection."""


def spoken(**ranges: tuple[int, int]) -> ApiVersionsResponse:
    rows = [
        ApiVersion(api_key=ApiKey[name], min_version=low, max_version=high)
        for name, (low, high) in ranges.items()
    ]
    return ApiVersionsResponse(api_keys=rows)


EVERYTHING = spoken(**{key.name: message.versions for key, (message, _) in CATALOGUE.items()})


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """HOST:PORT. ``serve`` gets each connection, and has it closed when it returns."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def accept() -> None:
            while not ended.is_set():
                with suppress(OSError):
                    connection, _ = server.accept()
                    with connection:
                        serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            with suppress(OSError), socket.create_connection(server.getsockname()):
                pass
            thread.join(60)


@contextmanager
def scripted_broker(answer: Answerer) -> Iterator[str]:
    """ApiVersions too has to be answered, such as with EVERYTHING."""

    def serve(connection: socket.socket) -> None:
        while (head := _read(connection, 4)) is not None:
            frame = _read(connection, *struct.unpack(">i", head))
            header, body = decode_request_header(memoryview(frame))
            request = CATALOGUE[header.api_key][0]
            told = answer(header, decode(request, min(header.api_version, request.versions[1]), body))
            if told is None:
                return
            connection.sendall(told if isinstance(told, bytes) else framed(header, told))

    with listening(serve) as address:
        yield address


def framed(header: RequestHeader, answer: Message, version: int | None = None) -> bytes:
    body = encode(answer, header.api_version if version is None else version)
    return response_prefix(header.api_key, header.api_version, header.correlation_id, len(body)) + body


def _read(connection: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            return None
        data += part
    return data
