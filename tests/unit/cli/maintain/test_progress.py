from io import StringIO

import pytest
from rich.console import Console

from siltstone.cli.maintain.progress import Progress, moved_words
from siltstone.maintenance.pipeline.watch import Told
from siltstone.runtime.clock import ManualClock


def test_bytes_and_time_left() -> None:
    told = Told("tidy", "rewrite", 1, 4, 1024, 4096)
    assert moved_words(told, 90.0) == "1.0 KiB of 4.0 KiB, about 90.0 s left"
    assert moved_words(told, None) == "1.0 KiB of 4.0 KiB"
    assert moved_words(Told("tidy", "read", 1, 4, 0, 0), None) == ""


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
    with Progress(clock) as progress:
        progress.tell(Told("tidy", "rewrite", 0, 4, 0, 4096))
        clock.advance_ms(1_000)
        progress.tell(Told("tidy", "rewrite", 3, 4, 3072, 4096))
        progress.say("[a unit] failed")
        (task,) = progress._bars.tasks
        assert (task.description, task.completed, task.total) == ("tidy, rewrite", 3, 4)
        assert task.fields["moved"].startswith("3.0 KiB of 4.0 KiB")
    text = written.getvalue()
    assert "[a unit] failed" in text
    assert ("tidy, rewrite" in text) is ("3/4" in text) is written.isatty()
    assert not text.endswith("3/4"), "the bar is gone"
    assert not progress._bars.live.is_started
