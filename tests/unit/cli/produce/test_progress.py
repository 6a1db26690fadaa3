import io

import pytest

from siltstone.cli.produce.progress import ProduceProgress, hint_at_terminal
from siltstone.runtime.clock import ManualClock


def test_nothing_is_drawn_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with ProduceProgress(io.BytesIO(), ManualClock()) as progress:
        progress.tell(10, 100)
    hint_at_terminal(io.BytesIO(), "t")
    assert tuple(capsys.readouterr()) == ("", "")


def test_a_remark_is_seen_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    with ProduceProgress(io.BytesIO(), ManualClock()) as progress:
        progress.say("the connection is lost [not markup]")
    assert capsys.readouterr().err == "the connection is lost [not markup]\n"
