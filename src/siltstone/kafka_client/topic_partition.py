"""The name of one partition."""

import msgspec


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
