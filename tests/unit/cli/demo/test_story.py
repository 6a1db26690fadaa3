from io import StringIO

from rich.console import Console

from siltstone.cli.demo.story import Story


def test_a_log_has_a_line_for_each_thing_and_no_bar() -> None:
    written = StringIO()
    story = Story(Console(file=written, width=60))
    story.title("Title", "What it is about.")
    story.step("First")
    with story.progress("working") as on_progress:
        on_progress(1, 2)
    story.done("done")
    story.step("Second")
    story.note("by the way")
    story.wrong("oh")
    story.command("siltstone " + "x" * 80)
    lines = [line.rstrip() for line in written.getvalue().splitlines() if line.strip()]
    assert lines == [
        "Title", "What it is about.", "1  First", "   ✓ done", "2  Second", "   · by the way", "   ✗ oh",
        "   $ siltstone " + "x" * 80,
    ]  # fmt: skip


def test_on_a_terminal_a_bar_moves_and_is_gone() -> None:
    written = StringIO()
    story = Story(Console(file=written, width=80, force_terminal=True))
    with story.progress("working") as on_progress:
        on_progress(1, 2)
    assert "working" in written.getvalue()
    assert written.getvalue().rstrip("\n").endswith("\x1b[2K")
