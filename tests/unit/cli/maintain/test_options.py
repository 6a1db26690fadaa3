import pytest

from siltstone.cli.maintain.options import LimitRefused, scope_of, seconds_of, size_of
from siltstone.maintenance.pipeline.kind import TopicNotThere
from siltstone.metadata.image import MetadataImage


@pytest.mark.parametrize(
    ("text", "seconds"), [(None, None), ("600", 600), ("1.5", 1.5), ("10min", 600), ("500ms", 0.5)]
)
def test_seconds(text: str | None, seconds: float | None) -> None:
    assert seconds_of("--max-seconds", text) == seconds


def test_sizes() -> None:
    assert size_of("--max-bytes", "10GiB") == 10 * 2**30 and size_of("--max-bytes", None) is None
    for text in ("much", "0"):
        with pytest.raises(LimitRefused, match=f"--max-bytes {text}: write a size above 0"):
            size_of("--max-bytes", text)


@pytest.mark.parametrize("text", ["-1", "0", "5y", "."])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(
        LimitRefused, match=r"--max-seconds .*: write a time above 0, such as 600 \(seconds\)"
    ):
        seconds_of("--max-seconds", text)


def test_topics_must_be_there() -> None:
    assert scope_of(MetadataImage(), ()).topics is None
    with pytest.raises(TopicNotThere, match="no topic flights"):
        scope_of(MetadataImage(), ("flights",))
