"""docs/reference.md is what the code says."""

import inspect
import re

import pytest

from siltstone.cli.main import cli
from siltstone.offline.opening.layers import NOT_SETTINGS
from siltstone.server.settings.listeners import settings_of_listener
from siltstone.server.settings.node import SETTINGS
from siltstone.stream_engine.engine import StreamEngine
from support.pages.reference_tables import (
    LISTENER_REASONS,
    REFERENCE,
    commands_list,
    settings_table,
    walk_commands,
    written,
)

TEXT = REFERENCE.read_text()


def test_the_tables_are_those_of_the_code() -> None:
    assert written(TEXT) == TEXT, "run: python tests/support/pages/reference_tables.py"


@pytest.mark.parametrize("key", [*SETTINGS])
def test_every_setting_is_in_the_reference(key: str) -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| `{key}` |"))
    default, reason = (cell.strip() for cell in row.strip("|").split("|")[1:3])
    assert default and len(reason.split()) >= 2


def test_every_setting_of_a_listener_is_in_the_reference() -> None:
    assert list(settings_of_listener("NAME")) == [f"listener.NAME.{name}" for name in LISTENER_REASONS]


def test_the_ten_settings_to_look_at_first_are_ten_that_exist() -> None:
    listed = TEXT.partition("### The ten to look at first")[2].partition("<!--")[0]
    lines = [line for line in listed.splitlines() if line.startswith("- ")]
    named = [key for line in lines for key in re.findall(r"`([a-z_.0]+)`", line.partition(":")[0])]
    assert len(lines) == 10
    assert {"topics.NAME" if key.startswith("topics.") else key for key in named} <= {
        *SETTINGS,
        "buckets.0",
        "topics.NAME",
    }


@pytest.mark.parametrize(("path", "command"), [*walk_commands(cli)], ids=str)
def test_every_command_and_option_is_in_the_reference(path: str, command) -> None:
    shared = TEXT.partition("Which store, for")[2].partition("### ")[0]
    section = TEXT.partition(f"### `{path}")[2].partition("### ")[0]
    for parameter in command.params:
        if getattr(parameter, "hidden", False):  # between two processes of ours
            continue
        for name in parameter.opts:
            assert (name if name.startswith("-") else str(parameter.metavar)) in path + section + shared
    assert section


def test_every_other_variable_is_in_the_reference() -> None:
    for variable in NOT_SETTINGS:
        assert f"`{variable}" in TEXT


def test_the_reference_names_no_setting_that_is_gone() -> None:
    named = re.findall(r"^\| `([a-z_.]+)` \|", settings_table(), re.MULTILINE)
    assert set(named) == set(SETTINGS)
    assert "siltstone demo" in commands_list()


def test_everything_an_engine_does_is_listed_with_its_arguments() -> None:
    begun_by_opening = {"start"}
    public = {name for name in vars(StreamEngine) if not name.startswith("_")} - begun_by_opening
    values = {name for name in public if isinstance(vars(StreamEngine)[name], property)}
    assert {name for name in values if f"`{name}`" not in TEXT} == set()
    calls = dict(re.findall(r"^\| `(?:await )?(\w+)\(([^)]*)\)` \|", TEXT, re.MULTILINE))
    assert set(calls) == public - values
    for name, arguments in calls.items():
        _, *taken = inspect.signature(getattr(StreamEngine, name)).parameters
        assert arguments.split(", ") == (taken or [""]), name
