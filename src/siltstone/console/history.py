"""How much topics grew lately: samples of their committed ends, taken by this process while it follows the metadata.

Samples are ``SAMPLE_MS`` apart and reach back ``SAMPLES_MAX`` of them. Only what has changed since the sample before is
kept, so a sample of 10,000 quiet topics is empty.
"""

from collections import deque
from collections.abc import Mapping

import msgspec

from siltstone.metadata.image import MetadataImage
from siltstone.runtime.turns import let_others_run

SAMPLE_MS = 5_000
SAMPLES_MAX = 720
"""An hour."""
TOPICS_MAX = 2_000
"""Topics that one sample tells apart; the growth of further ones is counted in the sum only."""


STREAMS_PER_TURN = 200
"""Streams that have changed and are looked at in one turn: a millisecond in a broker whose clients wait."""


class Sample(msgspec.Struct, frozen=True):
    """What was committed since the sample before: ``records`` and ``by_topic`` count offsets, by topic id."""

    at_ms: int
    span_ms: int
    records: int
    size_bytes: int
    by_topic: Mapping[str, int]


class TrafficHistory:
    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._image: MetadataImage | None = None
        self._at_ms = 0

    async def add(self, image: MetadataImage, now_ms: int) -> None:
        """Takes a sample if the last one is ``SAMPLE_MS`` old, in turns. The first image only begins the history."""
        if self._image is not None and now_ms - self._at_ms < SAMPLE_MS:
            return
        if self._image is not None:
            self.samples.append(await _sample(self._image, image, now_ms, max(1, now_ms - self._at_ms)))
        self._image, self._at_ms = image, now_ms

    def records_per_second(self, topic_id: str, last: int = 12) -> float:
        """Returns the rate over the ``last`` samples."""
        samples = list(self.samples)[-last:]
        span_ms = sum(each.span_ms for each in samples)
        return sum(each.by_topic.get(topic_id, 0) for each in samples) * 1000 / span_ms if span_ms else 0.0

    def rates(self) -> list[tuple[int, float, float]]:
        """Returns time, records a second and bytes a second of each sample."""
        return [
            (each.at_ms, each.records * 1000 / each.span_ms, each.size_bytes * 1000 / each.span_ms)
            for each in self.samples
        ]


async def _sample(before: MetadataImage, after: MetadataImage, now_ms: int, span_ms: int) -> Sample:
    by_topic: dict[str, int] = {}
    records = size_bytes = 0
    for number, (stream_id, stream) in enumerate(after.streams.changed_from(before.streams), 1):
        if number % STREAMS_PER_TURN == 0:
            await let_others_run()
        if stream.tags.get("kind") != "data":
            continue
        topic_id = after.topic_ids.get(stream.tags.get("topic", ""))
        if topic_id is None:
            continue
        earlier = before.streams.get(stream_id)
        end = earlier.end_offset if earlier is not None else 0
        grown = max(0, stream.end_offset - end)
        records += grown
        size_bytes += sum(each.size_bytes for each in stream.ranges if each.start_offset >= end)
        if grown and (topic_id in by_topic or len(by_topic) < TOPICS_MAX):
            by_topic[topic_id] = by_topic.get(topic_id, 0) + grown
    return Sample(now_ms, span_ms, records, size_bytes, by_topic)
