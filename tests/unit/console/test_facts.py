"""Kept facts are those of a count from the beginning, and cost as much as what has changed."""

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest

from siltstone.console import facts as counting
from siltstone.console.facts import COST_SHARE_MAX, GROWTH_MS, KEPT_MS_MAX, KeptFacts
from siltstone.console.views.cluster import moves_of
from siltstone.console.views.objects import ObjectsTally, objects_summary
from siltstone.console.views.topics import TopicTally, topic_counts
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectState
from siltstone.offline.topic_streams import TOPIC_DEFAULTS_KEY
from siltstone.runtime.clock import ManualClock
from support.console.images import ImageBuilder
from support.scenarios import in_loop

NOW_MS = 1_000_000_000


def image_of(topics: int, objects: int = 3) -> MetadataImage:
    built = ImageBuilder()
    for number in range(topics):
        first = number * objects
        built.topic(
            f"t{number}", *((first + each, each * 10, each * 10 + 10, 100) for each in range(objects))
        )
    return built.image(version=1)


def changed(image: MetadataImage, stream_id: int, **fields: Any) -> MetadataImage:
    """The image with one stream that has other fields."""
    draft = image.streams.draft()
    draft[stream_id] = msgspec.structs.replace(image.streams[stream_id], **fields)
    return msgspec.structs.replace(image, streams=draft.frozen(), version=image.version + 1)


class Counted:
    """Counts of streams and of shards since the last look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        self.facts = KeptFacts(self.clock)
        self.streams = self.shards = 0
        counted = self

        class Tally(TopicTally):
            def add(self, stream: Any) -> None:
                counted.streams += 1
                super().add(stream)

        def tally(found: Any = ()) -> ObjectsTally:
            counted.shards += 1
            return ObjectsTally(found)

        monkeypatch.setattr(counting, "TopicTally", Tally)
        monkeypatch.setattr(counting, "ObjectsTally", tally)

    async def look(self, image: MetadataImage, now_ms: int = NOW_MS) -> tuple[int, int]:
        """Compares with a count from the beginning; returns how many streams, and how many shards with objects, were
        counted."""
        self.streams = self.shards = 0
        self.facts.forget()
        found = await self.facts.of(image, now_ms)
        assert list(found.topics) == topic_counts(image, lambda _: True, now_ms)
        assert found.objects == objects_summary(image)
        assert list(found.moves) == sorted(moves_of(image.topics.values()))
        return self.streams, max(0, self.shards - 1)  # one is the sum


@in_loop
async def test_only_what_has_changed_is_counted_again(monkeypatch: pytest.MonkeyPatch):
    world, image = Counted(monkeypatch), image_of(50)
    streams, _ = await world.look(image)
    assert streams == 50
    assert await world.look(image) == (0, 0)
    image = changed(image, 7, end_offset=500)
    assert (await world.look(image))[0] == 1
    objects = image.objects.draft()
    objects[9] = msgspec.structs.replace(image.objects[9], state=ObjectState.DESTROYED)
    image = msgspec.structs.replace(image, objects=objects.frozen(), destroyed={9: 5})
    assert await world.look(image) == (0, 1)


@in_loop
async def test_topics_that_come_and_go_and_defaults_that_change(monkeypatch: pytest.MonkeyPatch):
    world, image = Counted(monkeypatch), image_of(20)
    await world.look(image)
    fewer = image.topics.draft()
    names = image.topic_ids.draft()
    gone = image.topic_ids["t3"]
    del fewer[gone]
    del names["t3"]
    without = msgspec.structs.replace(image, topics=fewer.frozen(), topic_ids=names.frozen())
    assert (await world.look(without))[0] == 0
    assert (await world.look(image))[0] == 1, "it is there again"
    keys = image.keys.draft()
    keys[TOPIC_DEFAULTS_KEY] = b'{"cleanup.policy": "compact"}'
    assert (await world.look(msgspec.structs.replace(image, keys=keys.frozen())))[0] == 20


@in_loop
async def test_growth_is_counted_again_after_a_minute(monkeypatch: pytest.MonkeyPatch):
    world, image = Counted(monkeypatch), image_of(5)
    await world.look(image)
    world.streams = 0
    await world.facts.of(image, NOW_MS + GROWTH_MS - 1)
    assert world.streams == 0
    assert (await world.look(image, NOW_MS + GROWTH_MS))[0] == 5


@in_loop
async def test_drawn_changes_give_what_a_count_from_the_beginning_gives(monkeypatch: pytest.MonkeyPatch):
    world, image, rng = Counted(monkeypatch), image_of(30), Random(5)
    for _ in range(40):
        for _ in range(rng.randrange(4)):
            image = changed(
                image, rng.randrange(30), start_offset=rng.randrange(30), end_offset=rng.randrange(30, 90)
            )
        if rng.random() < 0.5:
            objects = image.objects.draft()
            number = rng.choice(list(objects))
            if rng.random() < 0.5:
                del objects[number]
            else:
                objects[number] = msgspec.structs.replace(objects[number], size_bytes=rng.randrange(1_000))
            image = msgspec.structs.replace(image, objects=objects.frozen())
        await world.look(image)


@in_loop
async def test_what_took_long_is_kept_for_longer():
    class SlowClock(ManualClock):
        """Each look at the clock takes ``step_ms``."""

        step_ms = 0.0

        def monotonic_ms(self) -> float:
            self.advance_ms(self.step_ms)
            return super().monotonic_ms()

    clock = SlowClock()
    facts, image = KeptFacts(clock), image_of(3)
    clock.step_ms = 10.0
    await facts.of(image, NOW_MS)
    clock.step_ms = 0.0
    newer = changed(image, 1, end_offset=77)
    assert (await facts.of(newer, NOW_MS)).image is image
    clock.advance_ms(10 / COST_SHARE_MAX - 20)
    assert (await facts.of(newer, NOW_MS)).image is image
    clock.advance_ms(30)
    assert (await facts.of(newer, NOW_MS)).image is newer
    assert KEPT_MS_MAX < 60_000
    again = changed(newer, 1, end_offset=78)
    clock.step_ms = 10_000.0
    await facts.of(again, NOW_MS)
    clock.step_ms = 0.0
    last = changed(again, 1, end_offset=79)
    facts.forget()
    assert (await facts.of(last, NOW_MS)).image is last, "a change by button shows at once"


@in_loop
async def test_others_have_turns_and_a_page_that_gives_up_loses_nothing():
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    facts, image = KeptFacts(ManualClock()), image_of(3_000)
    beside = asyncio.create_task(other())
    giving_up = asyncio.create_task(facts.of(image, NOW_MS))
    for _ in range(6):
        await asyncio.sleep(0)
    giving_up.cancel()
    await asyncio.wait({giving_up})
    assert giving_up.cancelled()
    found = await facts.of(image, NOW_MS)
    beside.cancel()
    assert list(found.topics) == topic_counts(image, lambda _: True, NOW_MS)
    assert turns >= 3_000 * 9 // counting.RANGES_PER_TURN


@in_loop
async def test_pages_that_ask_at_the_same_time_share_a_count():
    facts, image = KeptFacts(ManualClock()), image_of(500)
    found = await asyncio.gather(*(facts.of(image, NOW_MS) for _ in range(5)))
    assert all(each is found[0] for each in found)
