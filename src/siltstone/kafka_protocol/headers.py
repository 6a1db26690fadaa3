"""The headers of requests and responses: they name the API and version, and match a response to its request.

=================  ==========================================================================================
request header     api key int16, api version int16, correlation id int32, client id (int16 length, or −1),
                   and tagged fields when the request is flexible
response header    correlation id int32, and tagged fields when the response is flexible, except ApiVersions:
                   its client does not know yet which versions the broker speaks
=================  ==========================================================================================

The client id has an int16 length in flexible requests too, so that a broker can read it in versions that it does not
know. The 4 bytes of a frame's size are not part of a header: the network has removed them from a request, and
``response_prefix`` writes them before a response header.
"""

from struct import Struct, error

import msgspec

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.compiling.primitives import skip_tagged, varint_at
from siltstone.kafka_protocol.malformed import MalformedMessage, UnknownApi
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.model.buffers import Buffer

_REQUEST = Struct(">hhih")
_CORRELATION_ID = Struct(">i")
_PLAIN_PREFIX = Struct(">ii")
_FLEXIBLE_PREFIX = Struct(">iiB")
NEVER = 1 << 15
"""A version above all others: version numbers are int16."""

_FLEXIBLE_SINCE: dict[int, int] = {
    key: NEVER if request.flexible_since is None else request.flexible_since
    for key, (request, _) in CATALOGUE.items()
}
_FLEXIBLE_RESPONSE_SINCE = _FLEXIBLE_SINCE | {ApiKey.API_VERSIONS: NEVER}
_KEYS: dict[int, ApiKey] = {int(key): key for key in CATALOGUE}


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, memoryview]:
    """Returns the header of a request, and its body. The version may be one that is not supported.

    Raises MalformedMessage, UnknownApi.
    """
    try:
        return _decode_request_header(frame)
    except (error, IndexError, ValueError) as cause:
        raise MalformedMessage(f"request header: {cause}") from cause


def _decode_request_header(frame: memoryview) -> tuple[RequestHeader, memoryview]:
    number, version, correlation_id, length = _REQUEST.unpack_from(frame)
    key = _KEYS.get(number)
    if key is None:
        raise UnknownApi(number, version)
    position = _REQUEST.size
    client_id = None
    if length >= 0:
        end = position + length
        if end > len(frame):
            raise ValueError(f"client id of {length} bytes, {len(frame) - position} left")
        # As Java does: the client id is only displayed.
        client_id = str(frame[position:end], "utf-8", "replace")
        position = end
    if version >= _FLEXIBLE_SINCE[key]:
        count, position = varint_at(frame, position)
        position = skip_tagged(frame, position, count)
    return RequestHeader(key, version, correlation_id, client_id), frame[position:]


def encode_request_header(header: RequestHeader) -> bytes:
    """Returns the header that a client writes before the body of its request."""
    client_id = b"" if header.client_id is None else header.client_id.encode()
    length = -1 if header.client_id is None else len(client_id)
    fixed = _REQUEST.pack(header.api_key, header.api_version, header.correlation_id, length)
    return fixed + client_id + bytes(header.api_version >= _FLEXIBLE_SINCE[header.api_key])


def response_prefix(api_key: int, api_version: int, correlation_id: int, body_bytes: int) -> bytes:
    """Returns the frame size and the header of a response whose body has ``body_bytes``."""
    if api_version >= _FLEXIBLE_RESPONSE_SINCE[api_key]:
        return _FLEXIBLE_PREFIX.pack(5 + body_bytes, correlation_id, 0)
    return _PLAIN_PREFIX.pack(4 + body_bytes, correlation_id)


def decode_response_header(api_key: int, api_version: int, frame: Buffer) -> tuple[int, memoryview]:
    """Returns the correlation id of a response, and its body; ``frame`` comes without its size. Raises
    MalformedMessage."""
    view = memoryview(frame)
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(view)
        position = _CORRELATION_ID.size
        if api_version >= _FLEXIBLE_RESPONSE_SINCE[api_key]:
            count, position = varint_at(view, position)
            position = skip_tagged(view, position, count)
    except (error, IndexError, ValueError) as cause:
        raise MalformedMessage(f"response header: {cause}") from cause
    return correlation_id, view[position:]
