"""Messages ⇄ bytes, for every API and version described in ``messages``.

``decode`` and ``encode`` are the same for requests and responses, and know nothing of headers (``headers``).

Invariants: trailing bytes are ignored and unknown tagged fields skipped, as the protocol wants; anything else that
does not fit is a MalformedMessage and never another exception; the memory taken is bounded by a multiple of the body's
size and by MESSAGE_ELEMENTS_MAX, of a request by REQUEST_ELEMENTS_MAX. Fields that a version lacks are left out,
whatever their value.

Read next: ``notation`` and ``compiling``.
"""

from struct import error
from typing import TypeVar, cast

from siltstone.kafka_protocol.compiling.compiled import decoder_of, encoder_of
from siltstone.kafka_protocol.malformed import MalformedMessage, UnencodableMessage
from siltstone.kafka_protocol.notation import Message
from siltstone.model.buffers import Buffer

M = TypeVar("M", bound=Message)


def decode(message: type[M], version: int, body: Buffer) -> M:
    """The message in ``body``, whose fields of bytes are slices of one copy of it: that makes the many small reads
    cheaper and lets the receive buffer go. Raises MalformedMessage, UnknownVersion."""
    decoder = decoder_of(message, version, False)
    try:
        return cast(M, decoder(bytes(body)))
    except (error, IndexError, ValueError) as cause:
        raise malformed(message, version, cause) from cause


def decode_in_place(message: type[M], version: int, body: Buffer) -> M:
    """The message in ``body``, whose fields of bytes are slices of ``body`` itself: for those that carry records.

    Raises MalformedMessage, UnknownVersion.
    """
    decoder = decoder_of(message, version, True)
    try:
        return cast(M, decoder(memoryview(body)))
    except (error, IndexError, ValueError) as cause:
        raise malformed(message, version, cause) from cause


def encode(message: Message, version: int) -> bytes:
    """The body of ``message``. Raises UnencodableMessage, UnknownVersion."""
    return b"".join(encode_pieces(message, version))


def encode_pieces(message: Message, version: int) -> list[Buffer]:
    """The body of ``message`` as buffers to be written one after another: record batches are not copied.

    Raises UnencodableMessage, UnknownVersion.
    """
    encoder = encoder_of(type(message), version)
    try:
        return encoder(message)
    except (error, AttributeError, TypeError, ValueError) as cause:
        raise UnencodableMessage(f"{type(message).__name__} v{version}: {cause}") from cause


def malformed(message: type[Message], version: int, cause: Exception) -> MalformedMessage:
    return MalformedMessage(f"{message.__name__} v{version}: {cause}")
