"""Commands whose stdin, stdout or stderr is closed, or whose stdout is a full disk: one line, and no bug."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.server.embedded import Broker
from support.engine.small_store import small_store

SILTSTONE = Path(sys.executable).with_name("siltstone")
CLOSED = "siltstone: standard output is closed: redirect it to a file, or to /dev/null\n"
FULL = "siltstone: standard output: No space left on device\n"
OF_A_BROKER = (
    "topics", "topics --json", "topics describe t", "topics describe t --json", "groups", "table t", "table t --json",
    "tail t --from earliest --until-end", "tail t --from earliest --until-end --format json",
)  # fmt: skip
OF_A_STORE = ("streams", "streams --json", "maintain plan", "maintain explain", "maintain status", "check")
OF_NOTHING = ("--help", "--version", "produce --help")


def shell(command: str, redirection: str) -> tuple[int, str]:
    """Exit status and stderr of a siltstone command."""
    script = f"exec {SILTSTONE} {command} {redirection}"
    done = subprocess.run(
        ["sh", "-c", script],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(tmp_path_factory.mktemp("streams") / "store") as running:
        option = f"--bootstrap {running.bootstrap_servers}"
        subprocess.run(
            [SILTSTONE, "produce", "t", "--create", "--key", "k", *option.split()], input=b"a\n", check=True
        )
        yield option


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("streams-of-a-store") / "store"
    small_store(folder)
    return f"--store {folder}"


@pytest.mark.parametrize("command", OF_A_BROKER)
def test_commands_of_a_broker_on_a_full_disk(broker: str, command: str) -> None:
    assert shell(f"{command} {broker}", ">/dev/full") == (1, FULL)


@pytest.mark.parametrize("command", OF_A_STORE)
def test_commands_of_a_store_on_a_full_disk(store: str, command: str) -> None:
    assert shell(f"{command} {store}", ">/dev/full") == (1, FULL)


@pytest.mark.parametrize("command", OF_NOTHING)
def test_help_on_a_full_disk(command: str) -> None:
    assert shell(command, ">/dev/full") == (1, FULL)


@pytest.mark.parametrize("command", ["topics", "tail t", "maintain plan", "--help"])
def test_a_closed_stdout_is_refused_before_anything_is_opened(command: str) -> None:
    assert shell(command, ">&-") == (2, CLOSED)


def test_a_closed_stdin_cannot_be_produced_from(broker: str) -> None:
    expected = "siltstone: standard input is closed: name a FILE, or redirect input from one\n"
    assert shell(f"produce t {broker}", "<&-") == (2, expected)
    assert shell(f"topics {broker}", "<&- >/dev/null") == (0, "")


def test_a_closed_stdin_confirms_nothing(broker: str) -> None:
    status, stderr = shell(f"topics delete t {broker}", "<&-")
    assert status == 2
    assert "add --yes to confirm" in stderr


def test_what_is_said_to_a_closed_stderr_does_not_get_into_the_results(broker: str, tmp_path: Path) -> None:
    status, _ = shell(f"topics describe nosuch {broker}", f">{tmp_path / 'results'} 2>&-")
    assert status != 0
    assert (tmp_path / "results").read_text() == ""
