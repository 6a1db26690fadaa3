from siltstone.console.history import SAMPLE_MS, SAMPLES_MAX, TOPICS_MAX, TrafficHistory
from siltstone.metadata.image import MetadataImage
from support.console.images import ImageBuilder
from support.scenarios import in_loop


def image_of(records: int, before: MetadataImage | None = None) -> MetadataImage:
    ranges = [(number, number * 10, number * 10 + 10, 100) for number in range(records // 10)]
    return ImageBuilder().topic("a", *ranges).image()


@in_loop
async def test_the_rate_is_what_was_committed_between_two_looks():
    history = TrafficHistory()
    await history.add(image_of(100), 0)
    assert history.rates() == [], "what was there before the console has no time"
    await history.add(image_of(150), SAMPLE_MS)
    assert history.rates() == [(SAMPLE_MS, 10.0, 100.0)]
    assert history.records_per_second(f"{0:032x}") == 10.0
    assert history.records_per_second("another topic") == 0.0


@in_loop
async def test_a_look_before_its_time_makes_no_sample():
    history = TrafficHistory()
    await history.add(image_of(0), 0)
    await history.add(image_of(10), SAMPLE_MS - 1)
    assert not history.samples
    await history.add(image_of(10), SAMPLE_MS)
    assert history.samples[0].records == 10


@in_loop
async def test_a_quiet_time_is_a_rate_of_nothing_and_the_history_has_a_bound():
    history, image = TrafficHistory(), image_of(50)
    for number in range(SAMPLES_MAX + 10):
        await history.add(image, number * SAMPLE_MS)
    assert len(history.samples) == SAMPLES_MAX
    assert {each[1] for each in history.rates()} == {0.0}


@in_loop
async def test_further_topics_are_counted_in_the_sum_only():
    before, after = ImageBuilder(), ImageBuilder()
    for number in range(TOPICS_MAX + 5):
        before.topic(f"t{number}")
        after.topic(f"t{number}", (number, 0, 1, 3))
    history = TrafficHistory()
    await history.add(before.image(), 0)
    await history.add(after.image(), SAMPLE_MS)
    (sample,) = history.samples
    assert (sample.records, sample.size_bytes, len(sample.by_topic)) == (
        TOPICS_MAX + 5,
        3 * (TOPICS_MAX + 5),
        TOPICS_MAX,
    )
