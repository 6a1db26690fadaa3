"""Every command in every state, at terminals of 80 and 140 columns and in a pipe: it ends with the status it should,
says what it should, and is written for what it is written to. A new command without a row fails here."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from zlib import crc32

import click
import msgspec
import pytest

from siltstone.cli.main import COMMANDS, cli
from siltstone.metadata.commands import PinScan, PutKey, StartJob
from siltstone.metadata.sinks import SINK_PREFIX, SinkBatch, SinkState, encode_sink
from siltstone.model.limits import HOUR_MS
from siltstone.offline.opening.store import open_store
from siltstone.server.embedded import Broker
from siltstone.server.settings.node import load_node_settings
from support.engine.small_store import object_files, small_store
from support.processes.cli import run as run_here
from support.processes.ports import free_port
from support.terminal import forked_commands
from support.terminal.cases import Case, State
from support.terminal.rows import ROWS

PIPE = 0
WIDTHS = (80, 140, PIPE)
DRAWN = {State.WORK}
"""States in which tables are drawn: by day at 80 columns, and at 140 or in a pipe. Any other state is tried at 80
columns or in a pipe. Which of two a row is tried at is drawn by its name; in the night all are tried everywhere."""
SECONDS_MAX = 60
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
RULE = re.compile(r"^[ ─]*──[ ─]*$", re.MULTILINE)

BESIDE_A_BAR = re.compile(r"━ .*\d:\d\d:\d\d\w")
"""A line that was printed behind a progress bar that was not erased."""


class Outcome(msgspec.Struct):
    status: int
    out: str
    err: str
    is_late: bool
    is_interrupted: bool


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    """The hidden ones, too."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        path = f"{before} {name}".strip()
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield path
        if isinstance(command, click.Group):
            yield from commands(command, path)


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    """A command has another row for an option that makes another command of it."""
    assert {path.partition(" --")[0] for path in ROWS} == {"", *commands(cli)}
    assert len(ROWS) > len(COMMANDS) >= 14


@pytest.mark.parametrize("path", ROWS)
def test_every_state_is_tried_or_says_why_not(path: str) -> None:
    for state, case in ROWS[path].items():
        assert isinstance(case, Case) or len(case.split()) >= 4, (path, state)
        if isinstance(case, Case):
            assert case.line.startswith(path)


# -- the scene


class Scene:
    """Stores and brokers that all runs share; ``places`` makes what a run has for itself."""

    def __init__(self, folder: Path, full: Broker, idle: Broker) -> None:
        self._folder = folder
        self._numbers = count()
        self._shared = {
            "at": full.bootstrap_servers, "idle": idle.bootstrap_servers, "closed": f"127.0.0.1:{free_port()}",
        }  # fmt: skip
        self._stores = {
            name: folder / name for name in ("store", "done", "empty", "broken", "leased", "tabled", "backup")
        }
        self._make_stores()
        self._at = full.bootstrap_servers
        lines = b"".join(b"key-%d:value-%d\n" % (number, number) for number in range(3))
        self._here("produce", "full", "-K", ":", "--create", stdin=lines)
        self._here("consume", "full", "-g", "readers", "--from-beginning", "-n", 3)

    def _here(self, *words: object, stdin: bytes | None = None) -> None:
        outcome = run_here(*words, "-b", self._at, stdin=stdin)
        assert outcome.status == 0, outcome

    def _make_stores(self) -> None:
        small_store(self._stores["store"])
        for name in ("done", "broken", "leased"):
            shutil.copytree(self._stores["store"], self._stores[name])
        done = run_here("maintain", "run", "--runner", "in-process", "--store", self._stores["done"])
        assert done.status == 0, done
        for path in object_files(self._stores["broken"]):
            damaged = bytearray(path.read_bytes())
            damaged[100] ^= 0xFF
            path.write_bytes(damaged)
        with open_store(load_node_settings(self._stores["leased"], environment={})) as opened:
            opened.metadata.execute(StartJob("sso-compaction", "a driver that died", 10_000_000))
            opened.metadata.execute(PinScan("query-1", HOUR_MS, "a notebook"))
            for name, state in (("orders", SinkState.INTENT), ("loads", SinkState.DONE)):
                batch = SinkBatch(
                    "relay", "", 7, state, "a driver that died", -1, "", 0, 1_000, "value binary"
                )
                opened.metadata.execute(PutKey(f"{SINK_PREFIX}{name}", encode_sink(batch)))
        open_store(load_node_settings(self._stores["empty"], environment={}), create=True).close()
        backed_up = run_here("backup", self._stores["backup"], "--store", self._stores["store"])
        assert backed_up.status == 0, backed_up
        with Broker(self._stores["tabled"]) as broker:
            for topic in ("kept", "fresh"):
                config = ("-c", "siltstone.table.format=parquet", "-b", broker.bootstrap_servers)
                assert run_here("topics", "create", topic, *config).status == 0
            sent = run_here("produce", "kept", "-b", broker.bootstrap_servers, stdin=b"a\nb\n")
            assert sent.status == 0, sent
        export = ("maintain", "run", "--kind", "table-export", "--runner", "in-process")
        exported = run_here(*export, "--store", self._stores["tabled"])
        assert exported.status == 0, exported

    def places(self, line: str) -> dict[str, str]:
        number = next(self._numbers)
        own = {name: f"{name}-{number}" for name in ("topic", "group")}
        if "{topic}" in line:
            self._here("produce", own["topic"], "--create", stdin=b"a\nb\nc\n")
        if " {group} --yes" in line:
            self._here("consume", "full", "-g", own["group"], "--from-beginning", "-n", 1)
        stores = {name: str(self._folder / f"{name}-{number}") for name in (*self._stores, "nowhere")}
        for name, kept in self._stores.items():
            if f"{{{name}}}" in line:
                shutil.copytree(kept, stores[name])
        return {**self._shared, **own, **stores}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, siltstone_broker: Broker) -> Iterator[Scene]:
    with Broker() as full, Broker() as idle:
        yield Scene(tmp_path_factory.mktemp("terminal"), full, idle)


@pytest.fixture(scope="module")
def forking() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, forked_commands.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ran(forking: subprocess.Popen[str], case: Case, words: list[str], columns: int) -> Outcome:
    assert forking.stdin and forking.stdout
    wanted = {
        "words": words, "columns": columns, "ctrl_c": case.ctrl_c, "typed": case.typed, "environment": {},
        "seconds_max": SECONDS_MAX,
    }  # fmt: skip
    forking.stdin.write(json.dumps(wanted) + "\n")
    forking.stdin.flush()
    return msgspec.json.decode(forking.stdout.readline(), type=Outcome)


# -- the runs


def is_quick(path: str, state: State, columns: int) -> bool:
    case = ROWS[path][state]
    second = crc32(f"{path} {state}".encode()) % 2
    by_day = (80, (140, PIPE)[second]) if state in DRAWN else ((80, PIPE)[second],)
    return isinstance(case, Case) and not case.is_slow and columns in by_day


EVERYTHING = [(path, state, columns) for path in ROWS for state in State for columns in WIDTHS]
QUICK = [each for each in EVERYTHING if is_quick(*each)]


def name(path: str, state: State, columns: int) -> str:
    return f"siltstone {path}, {state}, {f'{columns} columns' if columns else 'pipe'}"


@pytest.mark.xdist_group("terminal")
@pytest.mark.parametrize(
    ("path", "state", "columns"), [pytest.param(*each, id=name(*each)) for each in QUICK]
)
def test_a_command_in_a_state(
    forking: subprocess.Popen[str], scene: Scene, path: str, state: State, columns: int
) -> None:
    case = ROWS[path][state]
    assert isinstance(case, Case)
    check(ran(forking, case, case.words(scene.places(case.line)), columns), case, columns)


@pytest.mark.nightly
@pytest.mark.xdist_group("terminal")
@pytest.mark.timeout(600)
def test_slow_commands_and_wide_terminals(forking: subprocess.Popen[str], scene: Scene, record_tried) -> None:
    left = [
        (case, columns)
        for (path, state, columns) in set(EVERYTHING) - set(QUICK)
        if isinstance(case := ROWS[path][state], Case)
    ]
    assert len(left) > 40
    for case, columns in left:
        check(ran(forking, case, case.words(scene.places(case.line)), columns), case, columns)
        record_tried("commands at a terminal or in a pipe", 1)


def check(outcome: Outcome, case: Case, columns: int) -> None:
    everything = outcome.out + outcome.err
    plain = ESCAPES.sub("", everything)
    assert not outcome.is_late, everything
    assert outcome.is_interrupted or case.ctrl_c is None, everything
    assert outcome.status == case.status, everything
    assert re.search(case.shows, " ".join(plain.split())) or not case.shows, everything
    assert "Traceback" not in plain and "this is a bug" not in plain, everything
    if columns:
        drawn = [line for line in plain.replace("\r\n", "\n").splitlines() if RULE.match(line)]
        assert all(len(line) <= columns for line in drawn), everything
        assert not BESIDE_A_BAR.search(plain), everything
    elif not case.is_story:
        assert "\x1b" not in everything and "\r" not in everything, everything
        assert not RULE.search(plain), everything
        assert not [line for line in plain.splitlines() if line != line.rstrip(" ")], everything
        if case.status not in (0, 130):
            assert len(outcome.err.splitlines()) <= 3, everything
