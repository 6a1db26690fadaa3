import click
import pytest
from click.testing import CliRunner

from siltstone.carrying.pipeline.kind import Scope, ScopeTopicUnknown
from siltstone.cli.maintain.options import (
    LimitRefused,
    force_option,
    kind_option,
    scope_of,
    seconds_of,
    size_of,
    topic_option,
)
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
    with pytest.raises(ScopeTopicUnknown, match="no topic flights"):
        scope_of(MetadataImage(), ("flights",))


def test_a_scope_is_not_forced_unless_it_is_asked_for() -> None:
    assert scope_of(MetadataImage(), ()) == Scope(topics=None, is_forced=False, up_to=None)
    assert scope_of(MetadataImage(), (), force=True, up_to=7) == Scope(is_forced=True, up_to=7)


def test_the_smallest_limits() -> None:
    assert (size_of("--max-bytes", "1"), seconds_of("--max-seconds", "0.001")) == (1, 0.001)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], {"kinds": (), "topics": (), "force": False}),
        (
            ["--kind", "sweep", "--topic", "a", "--force", "--topic", "b", "--kind", "retention"],
            {"kinds": ("sweep", "retention"), "topics": ("a", "b"), "force": True},
        ),
    ],
)
def test_options_may_be_given_again_or_left_out(words: list[str], given: dict) -> None:
    heard: dict = {}
    command = click.command()(
        force_option(topic_option(kind_option(lambda **options: heard.update(options))))
    )
    assert CliRunner().invoke(command, words).exit_code == 0
    assert heard == given


def test_a_kind_must_be_one() -> None:
    refused = CliRunner().invoke(click.command()(kind_option(lambda kinds: None)), ["--kind", "tidy"])
    assert refused.exit_code == 2 and "'retention'" in refused.stderr
