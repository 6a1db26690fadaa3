import pytest

from siltstone.cli.output import PIPE_COLUMNS, facts, print_json, progress, remarks, results, table


def test_results_go_to_stdout_and_remarks_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    results().print("result [not markup")
    remarks().print("remark")
    assert tuple(capsys.readouterr()) == ("result [not markup\n", "remark\n")


def test_a_pipe_is_wide_enough_that_nothing_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert results().width == PIPE_COLUMNS
    assert results(80).width == 80
    monkeypatch.setenv("COLUMNS", "70")
    assert results().width == 70


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": (1, 2)})
    assert capsys.readouterr().out == '{\n  "a": [\n    1,\n    2\n  ]\n}\n'


def test_numbers_stand_to_the_right() -> None:
    made = table("name", ">count")
    assert [(column.header, column.justify) for column in made.columns] == [
        ("name", "left"),
        ("count", "right"),
    ]


def test_facts_leave_out_what_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    results(40).print(facts(peak_memory="1 B", nothing=None))
    assert capsys.readouterr().out.split() == ["peak", "memory", "1", "B"]


def test_a_bar_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(remarks()) as bars:
        bars.update(bars.add_task("x", total=2), completed=1)
    assert tuple(capsys.readouterr()) == ("", "")
