from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from siltstone.cli.store_options import StoreChoice, store_options, store_options_of_buckets
from siltstone.offline.opening.store import StoreNotFound, open_store
from siltstone.offline.opening.values import SettingRefused
from siltstone.server.settings.node import load_node_settings


def chosen(*arguments: str, **environment: str) -> StoreChoice:
    found: list[StoreChoice] = []

    @click.command()
    @click.argument("name")
    @store_options
    def command(choice: StoreChoice, name: str) -> None:
        """A command."""
        assert name == "x"
        found.append(choice)

    clean = {"SILTSTONE_STORE": None, "SILTSTONE_CONFIG": None}
    result = CliRunner().invoke(command, ["x", *arguments], env=clean | environment, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_where_the_store_is() -> None:
    assert chosen().store == Path("siltstone-data")
    assert chosen(SILTSTONE_STORE="env").store == Path("env")
    assert chosen("--store", "flag", SILTSTONE_STORE="env").store == Path("flag")
    assert chosen("--config", "c.toml").config == Path("c.toml")


def test_named_flags_and_assignments_become_settings() -> None:
    choice = chosen(
        "--bucket",
        "s3://b",
        "--metadata",
        "sqlite:///m",
        "--set",
        "engine.node_id=4",
        "--set",
        "buckets.1 = s3://c",
    )
    assert choice.flags == {
        "buckets.0": "s3://b", "metadata": "sqlite:///m", "engine.node_id": "4", "buckets.1": "s3://c",
    }  # fmt: skip


def test_flags_of_the_command_win_and_none_is_no_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = StoreChoice(Path("x"), flags={"sweep.grace_period_ms": "1s"})
    assert choice.settings(sweep__grace_period_ms=None).sweep.grace_period_ms == 1_000
    assert choice.settings(sweep__grace_period_ms="2s").sweep.grace_period_ms == 2_000


def test_an_assignment_without_a_value_is_refused() -> None:
    with pytest.raises(SettingRefused, match="write KEY=VALUE"):
        chosen("--set", "engine.node_id")


def test_the_help_of_the_command_stays_its_own() -> None:
    @click.command()
    @store_options
    def command(choice: StoreChoice) -> None:
        """What it does."""

    assert command.help == "What it does."
    assert command.name == "command"


def test_the_settings_are_those_of_the_store(tmp_path: Path) -> None:
    assert StoreChoice(tmp_path).settings() == load_node_settings(tmp_path, environment={})


def test_a_choice_opens_the_store_it_names(tmp_path: Path) -> None:
    """It must exist: a misspelt --store is an error, and not a new store."""
    with pytest.raises(StoreNotFound):
        StoreChoice(tmp_path / "no").open()
    open_store(load_node_settings(tmp_path, environment={}), create=True).close()
    with StoreChoice(tmp_path).open(engine__node_id="7") as store:
        assert (store.settings.folder, store.settings.engine.node_id) == (tmp_path, 7)


def test_where_a_command_looks_at_buckets_the_option_needs_no_url() -> None:
    found: list[dict[str, str]] = []

    @click.command()
    @store_options_of_buckets
    def command(choice: StoreChoice) -> None:
        found.append(choice.flags)

    for words in (["--bucket"], ["--bucket", "s3://b"], []):
        assert CliRunner().invoke(command, words, catch_exceptions=False).exit_code == 0
    assert found == [{}, {"buckets.0": "s3://b"}, {}]
