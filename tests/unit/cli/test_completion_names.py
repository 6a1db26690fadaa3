"""Against a port where nobody answers; tests/integration/test_completion.py has a broker."""

import click
import pytest
from click.shell_completion import ShellComplete

from siltstone.cli.completion import complete_groups, complete_topics
from siltstone.cli.main import cli


def completed(monkeypatch: pytest.MonkeyPatch, *words: str, incomplete: str = "") -> list[str]:
    completer = ShellComplete(cli, {}, "siltstone", "_SILTSTONE_COMPLETE")
    return [item.value for item in completer.get_completions(list(words), incomplete)]


@pytest.mark.parametrize("complete", [complete_topics, complete_groups])
def test_without_a_broker_there_are_no_names_and_no_error(complete) -> None:
    context = click.Context(click.Command("tail"))
    context.params["bootstrap"] = "127.0.0.1:1"
    assert complete(context, click.Argument(["topic"]), "") == []
    context.params["bootstrap"] = "not an address at all:::"
    assert complete(context, click.Argument(["topic"]), "") == []


def test_commands_options_and_formats_need_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed(monkeypatch, incomplete="consu") == ["consume"]
    assert "--until-end" in completed(monkeypatch, "tail", "t", incomplete="--un")
    assert completed(monkeypatch, "tail", "t", "-f", incomplete="j") == ["json"]
    assert completed(monkeypatch, "groups", incomplete="l") == ["list"]
