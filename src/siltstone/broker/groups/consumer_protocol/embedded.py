"""What members of the classic protocol write into JoinGroup, and read from SyncGroup, for the type ``consumer``. Pure.

Integers are big endian; a text has an int16 length, bytes and arrays have an int32 one. A newer version only adds
fields at the end, so its further fields are not read.

==========  ==========  =============================================
message     since       field
==========  ==========  =============================================
both        0           version, int16
subscribed  0           topics, texts
subscribed  0           user data, bytes or -1 for none
subscribed  1           what the member owns: (topic, partitions int32)
subscribed  2           its generation, int32
subscribed  3           its rack, a text or -1 for none
assigned    0           what it is given: (topic, partitions int32)
assigned    0           user data
==========  ==========  =============================================
"""

from collections import defaultdict
from collections.abc import Iterable
from struct import Struct, error

import msgspec

OWNED_SINCE, RACK_SINCE, VERSION_MAX = 1, 3, 3
_INT16, _INT32 = Struct(">h"), Struct(">i")
_NO_USER_DATA = _INT32.pack(-1)

NamedPartition = tuple[str, int]


class EmbeddedSubscription(msgspec.Struct, frozen=True):
    """``owned``: empty if the member gives up everything before it joins."""

    version: int
    topics: tuple[str, ...]
    owned: frozenset[NamedPartition] = frozenset()
    rack_id: str | None = None


class _Reader:
    """Methods raise struct.error, and UnicodeDecodeError, a ValueError."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def number(self, layout: Struct) -> int:
        number: int
        (number,) = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return number

    def count(self) -> int:
        count = self.number(_INT32)
        if not 0 <= count <= len(self._data):
            raise ValueError(f"{count} items in {len(self._data)} bytes")
        return count

    def text(self) -> str | None:
        length = self.number(_INT16)
        return None if length < 0 else self.taken(length).decode()

    def name(self) -> str:
        if (text := self.text()) is None:
            raise ValueError("no name")
        return text

    def taken(self, length: int) -> bytes:
        taken = self._data[self._position : self._position + length]
        if len(taken) != length:
            raise ValueError(f"{length} bytes are more than there are")
        self._position += length
        return taken

    def skip_bytes(self) -> None:
        self.taken(max(self.number(_INT32), 0))

    def partitions(self) -> frozenset[NamedPartition]:
        found: set[NamedPartition] = set()
        for _ in range(self.count()):
            name = self.name()
            found.update((name, self.number(_INT32)) for _ in range(self.count()))
        return frozenset(found)


def read_subscription(metadata: bytes) -> EmbeddedSubscription | None:
    """Returns None when ``metadata`` has another form."""
    reader = _Reader(metadata)
    try:
        version = reader.number(_INT16)
        topics = tuple(reader.name() for _ in range(reader.count()))
        reader.skip_bytes()
        owned = reader.partitions() if version >= OWNED_SINCE else frozenset()
        if version < RACK_SINCE:
            return EmbeddedSubscription(version, topics, owned)
        reader.number(_INT32)
        return EmbeddedSubscription(version, topics, owned, reader.text())
    except (error, ValueError):
        return None


def read_assignment(assignment: bytes) -> frozenset[NamedPartition] | None:
    """Returns None when ``assignment`` has another form. No bytes are no partitions."""
    if not assignment:
        return frozenset()
    reader = _Reader(assignment)
    try:
        reader.number(_INT16)
        return reader.partitions()
    except (error, ValueError):
        return None


def written_assignment(partitions: Iterable[NamedPartition], version: int) -> bytes:
    """``version``: that of the member's subscription."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for name, number in sorted(partitions):
        numbers[name].append(number)
    rows = b"".join(
        _text(name) + _INT32.pack(len(each)) + b"".join(map(_INT32.pack, each))
        for name, each in numbers.items()
    )
    head = _INT16.pack(min(max(version, 0), VERSION_MAX))
    return head + _INT32.pack(len(numbers)) + rows + _NO_USER_DATA


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded
