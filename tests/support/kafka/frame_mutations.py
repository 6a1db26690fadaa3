"""Requests as they should not be: valid ones of every API and version, and what chance makes of them.

Everything is a function of the random number generator that is handed in.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from random import Random
from struct import pack

import msgspec

from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.compiling.layout import ArrayOf, Blob, Field, FieldGroup, Text, WireType
from siltstone.kafka_protocol.headers import RequestHeader, encode_request_header
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.notation import Message, Number, Structure
from support.broker.every_request import plain_requests, spoken_versions
from support.groups.consumer_bytes import subscription
from support.kafka.message_strategies import full_message
from support.kafka.raw_calls import RawTopic, batch_of
from support.kafka.raw_kafka import request_bytes
from support.kafka.wire_messages import layout_at, random_message

EXTREME_NUMBERS = {
    "b": (-1, 0, 127, -128),
    "h": (-1, 0, 32_767, -32_768, 1_000),
    "i": (-1, 0, 2**31 - 1, -(2**31), 100_000, 65_535),
    "q": (-1, 0, 2**63 - 1, -(2**63), 2**31),
    "d": (-1.0, 0.0, 1e308, float("inf"), float("nan")),
}
VARINTS = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x00",
    b"\xff" * 9,
    b"\x80\x80\x04",
)
EXTREMES = (
    *(pack(f">{code}", value) for code, values in EXTREME_NUMBERS.items() for value in values),
    *VARINTS,
)

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]

WORDS = (
    "", "consumer", "range", "cleanup.policy", "compact", "delete", "retention.ms", "1", "-1", "compression.type",
    "lz4", "siltstone.record.validation", "full", "message.timestamp.type", "LogAppendTime", "max.message.bytes",
    "__consumer_offsets", "0", "raw", "x" * 300, "ä/\x00",
)  # fmt: skip
"""That mean something somewhere."""


SENSIBLE: Mapping[str, Sequence[object]] = {
    "acks": (-1, -1, 1, 0),
    "transactional_id": (None,),
    "index": (0, 1),
    "partition_index": (0, 1),
    "partition": (0, 1),
    "resource_type": (2, 2, 4),
    "session_timeout_ms": (6_000, 10_000),
    "rebalance_timeout_ms": (50, 10_000),
    "protocol_type": ("consumer",),
    "protocol_name": ("range",),
    "member_id": ("",),
    "group_instance_id": (None, None, "one", "other"),
    "generation_id": (-1, 1, 2, 3),
    "generation_id_or_member_epoch": (-1, 1, 2, 3),
    "max_wait_ms": (0, 10, 60_000),
    "max_bytes": (1, 1_000_000),
    "partition_max_bytes": (1, 1_000_000),
    "session_id": (0,),
    "session_epoch": (-1, 0, 1),
    "current_leader_epoch": (-1, 0),
    "key_type": (0,),
    "endpoint_type": (1,),
    "num_partitions": (-1, 1, 3),
    "replication_factor": (-1, 1),
    "count": (1, 3, 5),
    "assignments": ([], None),
    "timestamp": (-1, -2, -3, 0, 1_700_000_000_000),
}
"""Values that clients send in these fields. Most of the time chance draws one of them, too."""


def valid_frames(rng: Random, topic: RawTopic, group_id: str) -> list[bytes]:
    """Requests of every API and version: one that asks for something, one with every field filled, one at random."""
    frames = [request_bytes(request, version) for request, version in plain_requests(topic, group_id)]
    for key, version in spoken_versions():
        message = CATALOGUE[key][0]
        made = (full_message(message, version), random_message(message, version, rng))
        frames += [
            request_bytes(each, version, rng.getrandbits(31), rng.choice((None, "", "fuzz"))) for each in made
        ]
    return frames


class Plausible:
    """Requests that can be read and are about what there is, with values that nobody would choose together."""

    def __init__(self, topics: Sequence[RawTopic], group_ids: Sequence[str]) -> None:
        self._topic_names = [topic.name for topic in topics]
        self._ids = [bytes(16), *(topic.id for topic in topics)]
        self._group_ids = group_ids
        self._versions = {
            key: [version for each, version in spoken_versions() if each is key] for key in ANNOUNCED
        }

    def frame(self, rng: Random) -> bytes:
        key = rng.choice(list(self._versions))
        version = rng.choice(self._versions[key])
        message = self._group(layout_at(CATALOGUE[key][0], version).group, rng)
        assert isinstance(message, Message)
        return request_bytes(message, version, rng.getrandbits(31), "fuzz")

    def _group(self, group: FieldGroup, rng: Random) -> Structure:
        fields = [*group.fields, *(tagged.field for tagged in group.tagged if rng.random() < 0.3)]
        return group.structure(**{field.name: self._value(field, rng) for field in fields})

    def _value(self, field: Field, rng: Random) -> object:
        if field.name in SENSIBLE and rng.random() < 0.8:
            sensible = rng.choice(SENSIBLE[field.name])
            if sensible is not None or field.nullable:
                return sensible
        if field.nullable and rng.random() < 0.2:
            return None
        match field.type:
            case Number(code="?"):
                return rng.random() < 0.5
            case Number(code="16s"):
                return rng.choice(self._ids)
            case Number(code=code):
                return rng.choice((0, 0, 0, 1, 1, 2, 3, 7, -1, rng.choice(EXTREME_NUMBERS[code])))
            case Text():
                return self._text(field.name, rng)
            case Blob():
                return rng.choice((b"", rng.randbytes(20), batch_of(rng.randint(1, 5)), subscription("fuzz")))
            case ArrayOf(element):
                each = Field("", element, False)
                return [self._value(each, rng) for _ in range(rng.choice((0, 1, 1, 2, 4)))]
            case group:
                return self._group(group, rng)

    def _text(self, name: str, rng: Random) -> str:
        if "group" in name and rng.random() < 0.8:
            return rng.choice(self._group_ids)
        return rng.choice(self._topic_names if rng.random() < 0.5 else WORDS)


def mutated(rng: Random, pool: Sequence[bytes]) -> bytes:
    """Returns a frame of the pool, changed once or several times."""
    frame = rng.choice(pool)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        frame = rng.choice(MUTATIONS)(rng, frame, pool)
    return frame


# -- mutations -------------------------------------------------------------------------------------------


def _flip(rng: Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    changed = bytearray(frame)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(rng: Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    return frame[: rng.randint(0, len(frame))]


def _set_extreme(rng: Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    """Somewhere behind the header's first eight bytes; the frame keeps its size or not."""
    extreme = rng.choice(EXTREMES)
    position = rng.randint(min(8, len(frame)), len(frame))
    return frame[:position] + extreme + frame[position + rng.choice((len(extreme), 0, 1)) :]


def _splice(rng: Random, frame: bytes, pool: Sequence[bytes]) -> bytes:
    other = rng.choice(pool)
    return frame[: rng.randint(0, len(frame))] + other[rng.randint(0, len(other)) :]


def _other_api(rng: Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    key = rng.choice([*map(int, CATALOGUE), rng.randint(-32_768, 32_767)])
    return pack(">hh", key, rng.choice((rng.randint(-1, 20), rng.randint(-32_768, 32_767)))) + frame[4:]


def _other_version(rng: Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    return frame[:2] + pack(">h", rng.randint(0, 14)) + frame[4:]


def _repeat(rng: Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    start = rng.randint(0, len(frame))
    end = min(len(frame), start + rng.randint(1, 30))
    return frame[:end] + frame[start:end] * rng.randint(1, 200) + frame[end:]


def _noise(rng: Random, frame: bytes, _: Sequence[bytes]) -> bytes:
    position = rng.randint(0, len(frame))
    return frame[:position] + rng.randbytes(rng.randint(1, 20)) + frame[position:]


MUTATIONS: tuple[Mutation, ...] = (
    _flip, _truncate, _set_extreme, _set_extreme, _splice, _other_api, _other_version, _repeat, _noise,
)  # fmt: skip


# -- bombs -----------------------------------------------------------------------------------------------


class Bombs:
    """Valid requests that are nothing but elements: for every array of every API's oldest and newest version one in
    which it is as long as may be. ``apart``: every element is another one, so that nothing can be done once for all."""

    def __init__(self, topic: RawTopic, *, apart: bool) -> None:
        self._topic, self._apart = topic, apart

    def frames(
        self, chosen: Container[str], bytes_max: int, elements_max: int
    ) -> Iterator[tuple[str, bytes]]:
        """Returns the name and the bytes of each frame. ``chosen``: the names of requests."""
        for key in ANNOUNCED:
            request, _ = CATALOGUE[key]
            if request.__name__ not in chosen:
                continue
            versions = [version for spoken, version in spoken_versions() if spoken is key]
            for version in sorted({min(versions), max(versions)}):
                header = encode_request_header(RequestHeader(key, version, 1, "bomb"))
                for path in array_paths(layout_at(request, version).group):
                    message = self._exploded(request, version, path, bytes_max, elements_max)
                    yield f"{request.__name__} v{version} {'.'.join(path)}", header + encode(message, version)

    def _exploded(
        self, request: type[Message], version: int, path: tuple[str, ...], bytes_max: int, elements_max: int
    ) -> Message:
        """The array at ``path`` holds as many elements as fit; those on the way to it one each."""
        group = layout_at(request, version).group
        one, several = (len(encode(self._with_array(group, path, count, 0), version)) for count in (1, 1_001))
        count = min(elements_max, bytes_max * 1_000 // max(1, several - one))
        message = self._with_array(group, path, count, 0)
        assert isinstance(message, Message)
        return message

    def _with_array(self, group: FieldGroup, path: tuple[str, ...], count: int, number: int) -> Structure:
        values = {
            field.name: self._value(field, number)
            for field in group.fields
            if not isinstance(field.type, ArrayOf | FieldGroup)
        }
        made = group.structure(**values)
        if not path:
            return made
        (field,) = [each for each in _fields(group) if each.name == path[0]]
        assert isinstance(field.type, ArrayOf)
        return msgspec.structs.replace(
            made, **{field.name: self._elements(field.type.element, path[1:], count)}
        )

    def _elements(self, element: WireType, below: tuple[str, ...], count: int) -> list[object]:
        size = 1 if below else count

        def one(number: int) -> object:
            if isinstance(element, FieldGroup):
                return self._with_array(element, below, count, number)
            return self._value(Field("", element, False), number)

        return [one(number) for number in range(size)] if self._apart else [one(0)] * size

    def _value(self, field: Field, number: int) -> object:
        match field.type:
            case Text():
                return f"{number:x}" if self._apart else self._topic.name
            case Number(code="i"):
                return number if self._apart else 0
            case Number(code="16s"):
                return self._topic.id
            case Number(code="b"):
                return 2  # a resource type: topics
            case Number(code="h"):
                return -1  # acks of all, the broker's own replication factor
            case Number(code=code):
                return False if code == "?" else 0
            case Blob():
                return b""
            case _:
                return None if field.nullable else []


def array_paths(group: FieldGroup) -> Iterator[tuple[str, ...]]:
    for field in _fields(group):
        if isinstance(field.type, ArrayOf):
            yield (field.name,)
            if isinstance(field.type.element, FieldGroup):
                yield from ((field.name, *below) for below in array_paths(field.type.element))


def _fields(group: FieldGroup) -> list[Field]:
    return [*group.fields, *(tagged.field for tagged in group.tagged)]
