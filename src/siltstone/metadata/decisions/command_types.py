"""Whether a command's fields are what its class says, asked before it is decided.

The log keeps what it is given: a tag that is a number, or an offset that is a float, would be written without complaint
and refused by every reader, and no process could open the store again.
"""

from functools import lru_cache
from typing import Any

import msgspec

from siltstone.metadata.commands import Command
from siltstone.metadata.refusals import CommandMalformed

_encoder = msgspec.msgpack.Encoder()


def check_types(command: Command[Any]) -> None:
    """As a reader of the log would, by writing and reading it. Raises CommandMalformed."""
    try:
        _decoder(type(command)).decode(_encoder.encode(command))
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise CommandMalformed(f"{type(command).__name__} cannot be: {error}; correct it") from None


@lru_cache
def _decoder(kind: type[Command[Any]]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)
