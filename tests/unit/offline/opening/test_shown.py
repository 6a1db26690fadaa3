"""The description of an opened store, at a prompt and in a notebook."""

from pathlib import Path
from typing import Any

from siltstone.foundation.text_tables import ROWS_SHOWN_MAX
from siltstone.offline.opening.shown import store_html, store_words
from support.metadata.topic_images import TopicImage


def test_a_store_is_its_folder_and_its_topics() -> None:
    image: Any = TopicImage()
    folder = Path("/data/a<b")
    assert store_words(folder, image) == "Store('/data/a<b': 0 topics, 0 streams, 0 objects)"
    assert store_html(folder, image).endswith("0 objects)</p>")
    image.add("late", partitions=1, objects=2, offsets=100, size_bytes=1024)
    image.add("flights", partitions=3, objects=2, offsets=1_000, size_bytes=1024)
    html = store_html(folder, image)
    assert html.startswith("<p>Store(&#x27;/data/a&lt;b&#x27;: 2 topics, 4 streams, 8 objects)</p><table>")
    flights, late = html.index(">flights<"), html.index(">late<")
    assert flights < late, "topics are sorted by name"
    for cell in (">3<", ">6,000<", ">6.0 KiB<", ">6<"):
        assert cell in html[flights:late]


def test_topics_beyond_those_that_are_shown_are_counted_as_topics() -> None:
    image: Any = TopicImage()
    for number in range(ROWS_SHOWN_MAX + 2):
        image.add(f"t{number}", partitions=1, objects=1, offsets=1, size_bytes=1)
    assert "and 2 more topics<" in store_html(Path("/data"), image)
