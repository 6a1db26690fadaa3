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


GOLDEN = f"""\
Title
{"x " * 20}
{" " * 40}
1  First
   ✓ {"d" * 35}
   ✓ yyyyyyyyyyyyyyyyyyyy{" " * 15}
   zzzzzzzzzzzzzzzzzzzz{" " * 17}
{" " * 40}
   {"r" * 37}
{" " * 40}
   $ siltstone {"x" * 80}
2  Second
"""


def test_how_a_log_looks() -> None:
    """Texts that reach to the edge are not wrapped before it."""
    written = StringIO()
    story = Story(Console(file=written, width=40))
    story.title("Title", "x " * 20)
    story.step("First")
    story.done("d" * 35)
    story.done("y" * 20 + " " + "z" * 20)
    story.show("r" * 37)
    story.command("siltstone " + "x" * 80)
    story.step("Second")
    assert written.getvalue() == GOLDEN


def test_a_bar_shows_how_much_is_done() -> None:
    written = StringIO()
    story = Story(Console(file=written, width=80, force_terminal=True, color_system=None))
    with story.progress("working") as on_progress:
        on_progress(1, 4)
    assert "working ━━━━━" in written.getvalue() and " 25 %" in written.getvalue()
