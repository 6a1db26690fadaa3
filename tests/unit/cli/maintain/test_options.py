import pytest

from siltstone.cli.maintain.options import TopicNotThere, scope_of, seconds_of, size_of
from siltstone.metadata.image import MetadataImage
from siltstone.server.setting_values import SettingRefused


@pytest.mark.parametrize(
    ("text", "seconds"), [(None, None), ("600", 600), ("1.5", 1.5), ("10min", 600), ("500ms", 0.5)]
)
def test_seconds(text: str | None, seconds: float | None) -> None:
    assert seconds_of("--max-seconds", text) == seconds


def test_sizes() -> None:
    assert size_of("--max-bytes", "10GiB") == 10 * 2**30 and size_of("--max-bytes", None) is None
    with pytest.raises(SettingRefused, match="command line, --max-bytes"):
        size_of("--max-bytes", "much")


def test_topics_must_be_there() -> None:
    assert scope_of(MetadataImage(), ()).topics is None
    with pytest.raises(TopicNotThere, match="no topic flights"):
        scope_of(MetadataImage(), ("flights",))
