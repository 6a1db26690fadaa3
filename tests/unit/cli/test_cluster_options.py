from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from siltstone.cli.cluster_options import ClusterChoice, cluster_options


@click.group(invoke_without_command=True)
@cluster_options
def group(choice: ClusterChoice, as_json: bool) -> None:
    click.echo(f"group {choice.bootstrap[0]} {as_json}")


@group.command()
@cluster_options
def inner(choice: ClusterChoice, as_json: bool) -> None:
    click.echo(f"inner {choice.bootstrap[0]} {as_json}")


def last_line(*arguments: str, **environment: str | None) -> str:
    result = CliRunner().invoke(group, arguments, env={"SILTSTONE_BOOTSTRAP": None, **environment})
    assert result.exception is None, result.output
    return result.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "group 127.0.0.1:9092 False"),
        (("--bootstrap", "a:1", "--json"), "group a:1 True"),
        (("inner",), "inner 127.0.0.1:9092 False"),
        (("inner", "--bootstrap", "a:1", "--json"), "inner a:1 True"),
        (("--bootstrap", "a:1", "--json", "inner"), "inner a:1 True"),
        (("--bootstrap", "a:1", "inner", "--bootstrap", "b:2"), "inner b:2 False"),
    ],
)
def test_options_may_stand_before_or_after_the_subcommand(arguments: tuple[str, ...], told: str) -> None:
    assert last_line(*arguments) == told


def test_what_is_typed_wins_over_the_environment() -> None:
    assert last_line("inner", SILTSTONE_BOOTSTRAP="e:3") == "inner e:3 False"
    assert last_line("--bootstrap", "a:1", "inner", SILTSTONE_BOOTSTRAP="e:3") == "inner a:1 False"
    assert last_line("inner", "--bootstrap", "a:1", SILTSTONE_BOOTSTRAP="e:3") == "inner a:1 False"


def test_the_file_says_where_unless_somebody_has_typed_it(tmp_path: Path) -> None:
    """A file is often shared with programs of librdkafka, which take the address of it."""
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers = f:4,g:5\n")
    options = ("--client-config", str(file))
    assert last_line(*options) == "group f:4 False"
    assert last_line(*options, "inner") == last_line("inner", *options) == "inner f:4 False"
    assert last_line("inner", SILTSTONE_CLIENT_CONFIG=str(file)) == "inner f:4 False"
    assert last_line(*options, "--bootstrap", "a:1", "inner") == "inner a:1 False"
    assert last_line("inner", *options, SILTSTONE_BOOTSTRAP="e:3") == "inner e:3 False"
    file.write_text("bootstrap.servers=nonsense:nonsense\n")
    failure = CliRunner().invoke(group, ["inner", *options], env={"SILTSTONE_BOOTSTRAP": None}).exception
    assert "bootstrap.servers in" in str(failure)


@group.command()
@click.argument("names", nargs=-1)
@click.option("--group", "group_id", metavar="NAME")
@click.option("--key", metavar="KEY")
@cluster_options
def named(
    choice: ClusterChoice, names: tuple[str, ...], group_id: str | None, key: str | None, as_json: bool
) -> None:
    click.echo(f"named {len(names)}")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("a", "\udcffb"), r"'\udcffb' is not UTF-8"),
        (("--group", "\udcff"), r"'\udcff' is not UTF-8"),
        (("a" * 32_768,), "has 32768 bytes, and Kafka's protocol takes 32767"),
        (("é" * 16_384,), "has 32768 bytes, and Kafka's protocol takes 32767"),
    ],
)
def test_a_name_that_no_request_can_hold_is_refused_before_it_is_sent(
    arguments: tuple[str, ...], reason: str
) -> None:
    result = CliRunner().invoke(group, ("named", *arguments))
    assert result.exit_code == 2 and reason in result.output
    assert len(result.output) < 400


def test_names_of_any_other_kind_and_keys_of_any_length_are_taken() -> None:
    assert last_line("named", "a" * 32_767, "", "ü", "--key", "k" * 40_000) == "named 3"
