"""The bytes that scenarios send, the same for every client."""

import time

MIB = 1 << 20
START_MS = int(time.time() - 3_600) * 1_000
"""The timestamps of records that are looked up by time: an hour ago, so that retention keeps them."""
FOREVER = {"retention.ms": "-1"}
HEADERS: list[tuple[str, bytes | None]] = [
    ("a", b"1"),
    ("b", b""),
    ("a", b"\x00\xff"),
    ("c", None),
    ("ü", b"2"),
]
PAIRS: list[tuple[bytes | None, bytes | None]] = [
    (None, b"v"), (b"", b"v"), (b"k\x00", b""), (b"k", None), (None, None),
]  # fmt: skip


def plain_payloads(count: int = 100) -> list[bytes]:
    """Values of different lengths that have every byte."""
    return [bytes([number]) * number + bytes(range(256)) for number in range(count)]


def codec_values() -> list[bytes]:
    """A value that compresses well."""
    return [b"%d " % number * 100 for number in range(200)]


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def eight_mib() -> bytes:
    return bytes(range(256)) * (8 * MIB // 256)
