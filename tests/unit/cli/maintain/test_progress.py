from collections.abc import Callable
from io import StringIO
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from siltstone.carrying.pipeline.watch import StepProgress
from siltstone.cli.maintain.progress import Progress, moved_words
from siltstone.object_store.bucket_watch import BucketWatch
from siltstone.runtime.clock import ManualClock


def test_bytes_and_time_left() -> None:
    told = StepProgress("tidy", "rewrite", 1, 4, 1024, 4096)
    assert moved_words(told, 90.0) == "1.0 KiB of 4.0 KiB, about 90.0 s left"
    assert moved_words(told, None) == "1.0 KiB of 4.0 KiB"
    assert moved_words(StepProgress("tidy", "read", 1, 4, 0, 0), None) == ""


def store_of(clock: ManualClock, look: Callable[[], None] = lambda: None) -> Any:
    return SimpleNamespace(context=SimpleNamespace(clock=clock), buckets=SimpleNamespace(look=look))


ERASED_LINE = "\x1b[1A\x1b[2K"


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal, StringIO])
def test_a_bar_is_shown_at_a_terminal_alone_and_lines_everywhere(
    stream: type[StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = stream()
    console = Console(file=written, width=100, force_terminal=written.isatty(), color_system=None)
    monkeypatch.setattr("siltstone.cli.maintain.progress.remarks", lambda: console)
    clock = ManualClock()
    with Progress(store_of(clock)) as progress:
        progress.show(StepProgress("tidy", "rewrite", 0, 4, 0, 4096))
        clock.advance_ms(1_000)
        progress.show(StepProgress("tidy", "rewrite", 3, 4, 3072, 4096))
        progress.say("[a unit] failed")
        (task,) = progress._bars.tasks
        assert (task.description, task.completed, task.total) == ("tidy, rewrite", 3, 4)
        assert task.fields["moved"].startswith("3.0 KiB of 4.0 KiB")
    text = written.getvalue()
    assert "[a unit] failed" in text
    assert ("tidy, rewrite" in text) is ("3/4" in text) is written.isatty()
    assert not text.endswith("3/4"), "the bar is gone"
    assert not progress._bars.live.is_started


def test_results_do_not_stand_behind_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Terminal()
    console = Console(file=written, width=100, force_terminal=True)
    monkeypatch.setattr("siltstone.cli.maintain.progress.remarks", lambda: console)
    with Progress(store_of(ManualClock())) as progress:
        progress.show(StepProgress("tidy", "rewrite", 1, 4, 0, 0))
        with progress.erased():
            written.write("tidy: 1 of 4 done\n")
        progress.show(StepProgress("sweep", "delete", 1, 2, 0, 0))
        assert [task.description for task in progress._bars.tasks] == ["sweep, delete"]
    before, after = written.getvalue().split("tidy: 1 of 4 done")
    assert before.endswith(ERASED_LINE) and "sweep, delete" in after and "tidy" not in after


def test_a_bucket_that_does_not_answer_is_said_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    written = StringIO()
    monkeypatch.setattr(
        "siltstone.cli.maintain.progress.remarks", lambda: Console(file=written, width=400, color_system=None)
    )
    clock, looked = ManualClock(), Event()
    watch = BucketWatch("s3://b", clock)

    def look() -> None:
        watch.look()
        looked.set()

    with watch.watched("head a"), Progress(store_of(clock, look)):
        clock.advance_ms(10_000)
        looked.clear()
        assert looked.wait(60) and "bucket s3://b has not answered for 10.0 s: head a" in written.getvalue()
    with watch.watched("head a"):
        clock.advance_ms(100_000)
        watch.look()
    assert written.getvalue().count("has not answered") == 1, "not after the command"
