"""docs/operations.md is true: its unit starts a broker that stops in time, its backup can be read and is refused."""

import configparser
import math
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.cli.main import cli
from siltstone.object_store.metadata_mark import MetadataOlderThanBucket
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import SILTSTONE
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import ROOT, blocks

PAGE = ROOT / "docs" / "operations.md"
UNIT = (ROOT / "deploy" / "systemd" / "siltstone.service").read_text()
_, _, DRILL, BACKUP, _, LEVELS = blocks(PAGE, "sh")
(RESCUE,) = blocks(PAGE, "python")
RUN = [DRILL, BACKUP, RESCUE, LEVELS]
SECONDS_MAX = 60


def service() -> configparser.SectionProxy:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment]  systemd's names have capitals
    parser.read_string(UNIT)
    return parser["Service"]


@contextmanager
def unit_running(folder: Path) -> Iterator[str]:
    """What the unit starts, with other places; stopped as systemd does. The address of the broker."""
    program, *words = shlex.split(service()["ExecStart"])
    assert program.endswith("/bin/siltstone")
    words = [word.replace("/var/lib/siltstone", str(folder)).replace(":9644", ":0") for word in words]
    command = [SILTSTONE, *words, "--listener", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        found = re.search(r"ready at (\S+)", process.stdout.readline())
        assert found
        try:
            yield found[1]
        finally:
            began = time.monotonic()
            process.terminate()
            assert process.wait(SECONDS_MAX) == 0
            assert time.monotonic() - began < int(service()["TimeoutStopSec"])


def produce(servers: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for number in range(count):
        producer.produce("flights", b"%d" % number)
    assert producer.flush(SECONDS_MAX) == 0


def test_the_unit_waits_for_longer_than_a_stop_takes() -> None:
    settings = load_node_settings(Path("any"), environment={})
    promised_ms = settings.engine.close_time_limit_ms + settings.network.close_time_limit_ms
    assert int(service()["TimeoutStopSec"]) * 1_000 >= promised_ms + 10_000
    assert "25 s: `TimeoutStopSec`" in PAGE.read_text() and promised_ms == 25_000


def test_the_brokers_for_so_many_mb_a_second_follow_from_the_benchmarks() -> None:
    """The figures of the page are those of docs/benchmarks.md, and its table is what its formula says."""
    text, measured = PAGE.read_text(), (ROOT / "docs" / "benchmarks.md").read_text()
    costs = dict(re.findall(r"^\| (\d+ [KM]iB), produced \| ([\d.]+) s/GB \|", text, re.MULTILINE))
    read = float(re.search(r"catches up \| ([\d.]+) s/GB \|", text)[1])  # type: ignore[index]
    for size, cost in costs.items():
        assert re.search(rf"batches of {size} \|.*\n\| … CPU of the broker.*\| {cost}[; ]", measured), size
    assert re.search(rf"catch-up consume \|.*\n\| … CPU of the broker \| {read} s/GB", measured)
    assert len(costs) == 3 and f"read by all groups together × {read}" in text
    rows = re.findall(
        r"^\| (\d+) MB/s in batches of (\d+ [KM]iB) \| ([\d.]+) \| (\d+) \|$", text, re.MULTILINE
    )
    assert len(rows) == 5
    for rate, size, cores, brokers in rows:
        needed = (int(rate) * float(costs[size]) + 2 * int(rate) * read) / 1_000
        assert (cores, brokers) == (f"{needed:.2f}", str(math.ceil(2 * needed))), (rate, size, needed)


def test_the_questions_are_answered_by_commands_that_there_are() -> None:
    text = PAGE.read_text()
    table = text.split("## Twenty questions of an operator\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+\?) \| (.+) \|$", table, re.MULTILINE)
    assert len(rows) == 21
    for question, answer in rows:
        commands = re.findall(r"`siltstone ([^`]+)`", answer)
        assert commands or "](" in answer, question
        for words in commands:
            command: click.Command = cli
            options = []
            for word in words.split():
                found = (
                    command.get_command(click.Context(command), word)
                    if isinstance(command, click.Group)
                    else None
                )
                if word.startswith("--"):
                    options.append(word)
                elif found is not None:
                    command = found
            assert command is not cli, words
            known = {name for each in command.params for name in each.opts}
            assert set(options) <= known, words


def test_op01_the_drill_of_the_page_makes_a_second_store(tmp_path: Path) -> None:
    bare = BareEnvironment(tmp_path / "bare")
    with siltstone.Broker(tmp_path / "my-store") as broker:
        produce(broker.bootstrap_servers, 100)
    with siltstone.Broker(tmp_path / "my-store"):
        done = bare.run(DRILL, tmp_path)
    assert done.returncode == 0, done
    assert "was restored from version" in done.stdout and "clean: " in done.stdout, done.stdout
    rows = siltstone.scan("flights", store=tmp_path / "restored", tail="committed", lease="0").to_arrow()
    assert rows.num_rows == 100


def test_op06_the_upgrade_of_the_page_raises_the_level_once(tmp_path: Path) -> None:
    bare = BareEnvironment(tmp_path / "bare")
    with siltstone.Broker(tmp_path / "my-store") as broker:
        produce(broker.bootstrap_servers, 10)
        done = bare.run(LEVELS, tmp_path)
    assert done.returncode == 0, done
    assert "until siltstone upgrade raises it to 2" in done.stdout
    assert "would be raised from level 1" in done.stdout and "is raised from level 1" in done.stdout


def test_a_backup_is_made_beside_a_broker_read_when_all_else_is_lost_and_not_written_with(
    tmp_path: Path,
) -> None:
    store, bare = tmp_path / "my-store", BareEnvironment(tmp_path / "bare")
    with unit_running(store) as servers:
        produce(servers, 100)
    with unit_running(store) as servers:
        made = bare.run(BACKUP, tmp_path)
        assert (made.returncode, made.stderr) == (0, "")
        produce(servers, 50)
    backup = tmp_path / "metadata-backup.sqlite"
    assert backup.stat().st_mode & 0o077 == 0
    (tmp_path / "rescued").mkdir()
    shutil.copy(backup, tmp_path / "rescued" / "metadata.sqlite")
    read = bare.run(f"python - <<'END'\n{RESCUE}END", tmp_path)
    assert read.stdout == "100 records are readable\n", read
    before = sorted(path.name for path in (store / "bucket").rglob("*"))
    settings = load_node_settings(
        tmp_path / "rescued", environment={}, flags={"buckets.0": (store / "bucket").as_uri()}
    )
    with (
        siltstone.open_store(settings) as opened,
        pytest.raises(MetadataOlderThanBucket, match="newest copy"),
    ):
        siltstone.scan("flights", store=opened)
    assert sorted(path.name for path in (store / "bucket").rglob("*")) == before
