"""What holds for every command: help, version, exit status, one line on failure."""

import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace

import click
import pytest

from siltstone import __version__
from siltstone.cli import main as module
from siltstone.cli import streams as streams_command
from siltstone.cli.failures import exit_status
from siltstone.cli.main import COMMANDS, ELSEWHERE, SUMMARIES, Commands, cli
from siltstone.cli.standard_streams import OutputClosed
from support.processes.cli import assert_one_line, run


def test_version() -> None:
    assert run("--version").out == f"siltstone {__version__}\n"


def commands(group: click.Group, *before: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        found.append((*before, name))
        if isinstance(command, click.Group):
            found += commands(command, *before, name)
    return found


@pytest.mark.parametrize("command", commands(cli), ids=" ".join)
def test_every_command_has_a_help_that_fits_80_columns(command: tuple[str, ...]) -> None:
    outcome = run(*command, "--help")
    assert outcome.status == 0
    assert f"Usage: siltstone {' '.join(command)}" in outcome.out
    assert all(len(line) <= 80 for line in outcome.out.splitlines())
    assert ".md" not in outcome.out, "what is installed has no documents"
    options = outcome.out.partition("Options:")[2]
    assert "--help" in options


def test_without_a_command_the_help_is_shown() -> None:
    assert run().status == 0
    assert "siltstone demo" in run().out
    assert "sweep" in run("maintain").out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("nonsense",), ("No such command 'nonsense'", "siltstone --help")),
        (("topcs",), ("No such command 'topcs'. Did you mean 'topics'? See siltstone --help",)),
        (("produce", "x", "missing.txt"), ("No such file or directory. See siltstone produce --help",)),
        (("streams", "--nonsense"), ("No such option '--nonsense'", "siltstone streams --help")),
        (("streams", "extra"), ("unexpected extra argument",)),
        (("inspect",), ("Missing argument 'OBJECT'",)),
        (("streams", "--set", "engine.wal.sync"), ("write KEY=VALUE",)),
        (
            ("streams", "--set", "engine.wal.sync=sometimes"),
            ("engine.wal.sync", '"sometimes"', "every-group"),
        ),
        (("streams", "--set", "engine.wal.sink=never"), ("did you mean engine.wal.sync?",)),
        (("streams", "--config", "missing.toml"), ("missing.toml cannot be read",)),
        (("streams", "--metadata", "mysql://x"), ("'mysql://x' names no metadata log",)),
    ],
)
def test_t35_wrong_input_is_one_line_and_exit_status_2(
    arguments: tuple[str, ...], parts: tuple[str, ...], tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(run(*arguments), 2, *parts)


@pytest.mark.parametrize(
    "arguments",
    [
        ("streams",),
        ("inspect", "0"),
        ("check",),
        ("maintain", "sweep"),
        ("maintain", "plan"),
        ("maintain", "run", "--dry-run"),
        ("maintain", "run", "--runner", "in-process"),
    ],
)
def test_t35_a_store_that_does_not_exist_is_named_and_not_made(arguments, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(
        run(*arguments),
        2,
        f"there is no store at {tmp_path}/siltstone-data",
        "create a store with siltstone serve or siltstone demo",
    )
    assert_one_line(run(*arguments, "--store", "elsewhere"), 2, f"{tmp_path}/elsewhere")
    assert_one_line(run(*arguments, SILTSTONE_STORE="third"), 2, f"{tmp_path}/third")
    assert list(tmp_path.iterdir()) == []


def test_metadata_that_is_something_else_is_wrong_input(tmp_path) -> None:
    (tmp_path / "metadata.sqlite").write_text("a letter, no database, and long enough to be looked at " * 40)
    assert_one_line(run("streams", "--store", tmp_path), 2, "metadata.sqlite is not a metadata database")


def failing_with(failure: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(streams_command.StoreChoice, "open", fail)


def test_ctrl_c_ends_with_130(monkeypatch) -> None:
    failing_with(KeyboardInterrupt(), monkeypatch)
    outcome = run("streams")
    assert (outcome.status, outcome.err.split()) == (130, ["siltstone:", "interrupted"])


def test_a_bug_shows_no_traceback_unless_asked(monkeypatch) -> None:
    failing_with(KeyError("x"), monkeypatch)
    outcome = run("streams")
    assert (outcome.status, outcome.out) == (1, "")
    assert "Traceback" not in outcome.err and len(outcome.err.splitlines()) == 1
    with pytest.raises(KeyError):
        run("streams", SILTSTONE_DEBUG="1")


@pytest.mark.parametrize("status", [0, 3])
def test_the_status_that_a_command_asks_for_is_that_of_the_process(status: int) -> None:
    @click.command()
    @click.pass_context
    def finishes(context: click.Context) -> None:
        context.exit(status)

    class One(Commands):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            return finishes

    with pytest.raises(SystemExit) as ended:
        One("siltstone").main(["finishes"])
    assert ended.value.code == status


@pytest.mark.parametrize(("typed", "written"), ELSEWHERE.items())
def test_what_other_tools_call_a_command_is_answered_with_how_it_is_written_here(
    typed: str, written: str
) -> None:
    assert_one_line(run(typed), 2, f"No such command '{typed}'. Write {written}.")


def test_the_program_keeps_quiet_about_everything_but_its_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless SILTSTONE_DEBUG is set: then it logs."""
    done: list[str] = []
    monkeypatch.setattr(module, "cli", SimpleNamespace(main=lambda *, prog_name: done.append(prog_name)))
    monkeypatch.setattr(module, "keep_quiet", lambda: done.append("quiet"))
    monkeypatch.setattr(module, "prepare_streams", lambda: done.append("streams"))
    monkeypatch.setattr(module.logging, "basicConfig", lambda level: done.append(f"logs {level}"))
    monkeypatch.delenv("SILTSTONE_DEBUG", raising=False)
    module.main()
    monkeypatch.setenv("SILTSTONE_DEBUG", "1")
    module.main()
    assert done == ["quiet", "streams", "siltstone", "logs 20", "streams", "siltstone"]

    def closed() -> None:
        raise OutputClosed("stdout is closed")

    monkeypatch.setattr(module, "prepare_streams", closed)
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == exit_status(OutputClosed("stdout is closed"))
    assert capsys.readouterr().err.endswith("siltstone: stdout is closed\n")


def test_the_help_has_the_first_sentence_of_each_command_that_is_not_hidden() -> None:
    loaded = {name: getattr(import_module(module), name) for name, module in COMMANDS.items()}
    shown = {name: each.get_short_help_str(1_000) for name, each in loaded.items() if not each.hidden}
    assert shown == SUMMARIES


def test_the_help_loads_no_command_and_costs_about_what_the_version_costs() -> None:
    """The ratio is generous: with all commands loaded the help costs eight times as much."""
    seen = (
        "import sys, resource; from siltstone.cli.main import cli\n"
        "try: cli(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "used = resource.getrusage(resource.RUSAGE_SELF); print('used', used.ru_utime + used.ru_stime)\n"
        "print('loaded', *sorted(sys.modules))"
    )

    def asked(option: str) -> tuple[float, set[str]]:
        answer = subprocess.run(
            [sys.executable, "-c", seen, option], capture_output=True, text=True, check=True
        )
        *_, used, loaded = answer.stdout.splitlines()
        return float(used.split()[1]), set(loaded.split())

    cpu, modules = asked("--help")
    assert (
        not {"numpy", "pyarrow", "duckdb", "pyspark", "siltstone.server", "siltstone.maintenance"} & modules
    )
    assert not {name for name in modules if name in set(COMMANDS.values())}
    assert cpu < 4 * min(asked("--version")[0] for _ in range(3))
