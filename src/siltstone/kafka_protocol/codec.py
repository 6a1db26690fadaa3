"""Decodes and encodes the body of every message that ``messages`` describes, in each of its versions.

The functions are the same for requests and responses. Headers are separate (``headers``).

Invariants: as the protocol demands, trailing bytes are ignored and unknown tagged fields are skipped; any other
malformed input raises MalformedMessage and no other exception. The memory that decoding takes is bounded by a multiple
of the body's size and by a number of array elements: REQUEST_ELEMENTS_MAX for requests, MESSAGE_ELEMENTS_MAX for
responses. The encoder omits fields that the version lacks, whatever their value.

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
    """The message in ``body``. Fields of bytes are slices of one copy of ``body``: reading from bytes is faster than
    from a memoryview, and the message does not keep the receive buffer alive. Raises MalformedMessage,
    UnknownVersion."""
    decoder = decoder_of(message, version, False)
    try:
        return cast(M, decoder(bytes(body)))
    except (error, IndexError, ValueError) as cause:
        raise malformed(message, version, cause) from cause


def decode_in_place(message: type[M], version: int, body: Buffer) -> M:
    """The message in ``body``. Fields of bytes are slices of ``body`` itself, so records are not copied.

    Raises MalformedMessage, UnknownVersion.
    """
    decoder = decoder_of(message, version, True)
    try:
        return cast(M, decoder(memoryview(body)))
    except (error, IndexError, ValueError) as cause:
        raise malformed(message, version, cause) from cause


def encode(message: Message, version: int) -> bytes:
    """Encodes ``message`` as the body of a request or response. Raises UnencodableMessage, UnknownVersion."""
    return b"".join(encode_pieces(message, version))


def encode_pieces(message: Message, version: int) -> list[Buffer]:
    """Encodes ``message`` as buffers that are to be written one after another; record batches are not copied.

    Raises UnencodableMessage, UnknownVersion.
    """
    encoder = encoder_of(type(message), version)
    try:
        return encoder(message)
    except (error, AttributeError, TypeError, ValueError) as cause:
        raise UnencodableMessage(f"{type(message).__name__} v{version}: {cause}") from cause


def malformed(message: type[Message], version: int, cause: Exception) -> MalformedMessage:
    return MalformedMessage(f"{message.__name__} v{version}: {cause}")
