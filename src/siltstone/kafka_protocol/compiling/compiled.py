"""The functions that decode and encode one version of a message, compiled when they are first used.

The executed source text is made by ``decoder_source`` and ``encoder_source`` from the message descriptions in this
package alone; nothing from the network becomes part of it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from siltstone.kafka_protocol.compiling.decoder_source import decoder_source
from siltstone.kafka_protocol.compiling.encoder_source import encoder_source
from siltstone.kafka_protocol.compiling.layout import Layout, layout_of
from siltstone.kafka_protocol.malformed import UnknownVersion
from siltstone.kafka_protocol.notation import Message
from siltstone.model.buffers import Buffer

Decoder = Callable[[Buffer], Any]
Encoder = Callable[[Any], list[Buffer]]


@cache
def decoder_of(message: type[Message], version: int, in_place: bool) -> Decoder:
    """Returns the function that decodes the message from bytes, or from a memoryview if ``in_place``. Raises
    UnknownVersion."""
    text, constants = decoder_source(_layout(message, version), in_place)
    decoder: Decoder = _function("decode", text, constants, f"<{message.__name__} v{version} decoder>")
    return decoder


@cache
def encoder_of(message: type[Message], version: int) -> Encoder:
    """Returns the function that encodes the message as a list of buffers. Raises UnknownVersion."""
    text, constants = encoder_source(_layout(message, version))
    encoder: Encoder = _function("encode", text, constants, f"<{message.__name__} v{version} encoder>")
    return encoder


def is_flexible(message: type[Message], version: int) -> bool:
    return message.flexible_since is not None and version >= message.flexible_since


def _layout(message: type[Message], version: int) -> Layout:
    lowest, highest = message.versions
    if not lowest <= version <= highest:
        raise UnknownVersion(f"{message.__name__} has versions {lowest} to {highest}, not {version}")
    return layout_of(message, version, is_flexible(message, version))


def _function(name: str, text: str, constants: dict[str, Any], title: str) -> Any:
    exec(compile(text, title, "exec"), constants)  # noqa: S102
    return constants[name]
