"""The line of a record by a template, as kcat and rpk write it: ``--format '%t %p %o %k: %s\\n'``. Pure.

======  =====================================================
token   stands for
======  =====================================================
``%t``  the topic
``%p``  the partition
``%o``  the offset
``%k``  the key, nothing for null
``%s``  the value, nothing for null; ``%v`` is the same
``%K``  the length of the key in bytes, -1 for null
``%S``  the length of the value in bytes, -1 for null
``%T``  the timestamp in ms since 1970
``%h``  the headers: ``name=value``, separated by commas
``%%``  a percent sign
======  =====================================================

``\\n``, ``\\t``, ``\\r``, ``\\0`` and ``\\\\`` are escapes. No line end is added. [kcat: -f; rpk: --format]
"""

import re
from collections.abc import Callable, Mapping

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.buffers import Buffer
from siltstone.model.errors import InvalidRequest

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_PIECE = re.compile(r"%(.?)|\\(.)", re.DOTALL)


class TemplateRefused(InvalidRequest):
    """A template has a token or an escape that is not known."""


Piece = Callable[[TopicPartition, Record], bytes]


def parse_template(text: str) -> Piece:
    """Returns a function that writes a record as ``text`` says. Raises TemplateRefused."""
    pieces: list[Piece] = []
    position = 0
    for match in _PIECE.finditer(text):
        pieces += [_literal(text[position : match.start()]), _parsed(match)]
        position = match.end()
    pieces.append(_literal(text[position:]))
    return lambda where, record: b"".join(piece(where, record) for piece in pieces)


def _parsed(match: re.Match[str]) -> Piece:
    token, escape = match[1], match[2]
    if escape is not None:
        if escape not in _ESCAPES:
            raise TemplateRefused(f"--format: \\{escape} is no escape; known are \\n, \\t, \\r, \\0 and \\\\")
        return _literal(_ESCAPES[escape])
    if token not in TOKENS:
        raise TemplateRefused(
            f"--format: %{token} is no token; known are {', '.join(f'%{t}' for t in TOKENS)}"
        )
    return TOKENS[token]


def _literal(text: str) -> Piece:
    written = text.encode("utf-8", "surrogateescape")
    return lambda _where, _record: written


def _bytes(data: Buffer | None) -> bytes:
    return b"" if data is None else bytes(data)


def _length(data: Buffer | None) -> bytes:
    return b"-1" if data is None else str(len(data)).encode()


def _headers(record: Record) -> bytes:
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + _bytes(value) for name, value in record.headers
    )


TOKENS: Mapping[str, Piece] = {
    "t": lambda where, _: where.topic.encode(),
    "p": lambda where, _: str(where.partition).encode(),
    "o": lambda _, record: str(record.offset).encode(),
    "k": lambda _, record: _bytes(record.key),
    "s": lambda _, record: _bytes(record.value),
    "v": lambda _, record: _bytes(record.value),
    "K": lambda _, record: _length(record.key),
    "S": lambda _, record: _length(record.value),
    "T": lambda _, record: str(record.timestamp_ms).encode(),
    "h": lambda _, record: _headers(record),
    "%": lambda _where, _record: b"%",
}
