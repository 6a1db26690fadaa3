"""Subscriptions and assignments as consumers write them (ConsumerProtocol version 1)."""

from struct import pack


def string(text: str) -> bytes:
    return pack(">h", len(text.encode())) + text.encode()


def subscription(*topics: str, user_data: bytes = b"", owned: dict[str, list[int]] | None = None) -> bytes:
    head = pack(">hi", 1, len(topics)) + b"".join(string(topic) for topic in topics)
    return head + pack(">i", len(user_data)) + user_data + _partitions(owned or {})


def assignment(partitions: dict[str, list[int]]) -> bytes:
    return pack(">h", 1) + _partitions(partitions) + pack(">i", -1)


def _partitions(partitions: dict[str, list[int]]) -> bytes:
    listed = b"".join(
        string(topic) + pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in partitions.items()
    )
    return pack(">i", len(partitions)) + listed
