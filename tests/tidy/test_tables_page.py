"""docs/tables.md works: its commands, its program, and the configurations and failures that it names are there."""

import re
from pathlib import Path

import pytest

import siltstone
from siltstone.tables import failures
from siltstone.topic_configs.column_types import PLAIN
from siltstone.topic_configs.rows import TABLE
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import ROOT, blocks

PAGE = ROOT / "docs" / "tables.md"
TEXT = PAGE.read_text()
COMMANDS = blocks(PAGE, "sh")
PROGRAMS = blocks(PAGE, "python")
RUN = [*COMMANDS, *PROGRAMS]


@pytest.mark.timeout(300)
def test_tb1_a_topic_becomes_a_table_as_the_page_says(tmp_path: Path) -> None:
    bare = BareEnvironment(tmp_path / "bare")
    (commands, found), (program,) = COMMANDS, PROGRAMS
    lines = commands.splitlines()
    shown = []
    with siltstone.Broker(tmp_path / "my-store") as broker:
        for line in (*lines, *found.splitlines()):
            done = bare.run(line, tmp_path, SILTSTONE_BOOTSTRAP=broker.bootstrap_servers)
            assert done.returncode == 0, (line, done)
            shown.append(done.stdout)
    shown = shown[3:]
    assert "3 rows in 1 file appended to table kafka.flights" in shown[0]
    assert "flights\tkafka.flights\ticeberg\t3\t0\t0\t" in shown[1]
    assert "delay\tint64" in shown[2]
    assert "new field ms: long; new field user: struct<id:long>" in shown[5], shown[5]
    assert '"tags":[]' in shown[5] and "_rescued_data\tstring" in shown[6], shown[5:]
    (tmp_path / "program.py").write_text(program)
    done = bare.run("python program.py", tmp_path)
    assert done.returncode == 0, done
    assert "delay: [[61]]" in done.stdout, done.stdout
    assert re.search(r"B6.*NULL", done.stdout) and re.search(r"AA.*61", done.stdout), done.stdout


def test_every_configuration_and_every_type_is_on_the_page() -> None:
    named = [name for name in TABLE if name.startswith("siltstone.table.")]
    assert [name for name in named if name not in TEXT] == []
    assert [kind for kind in PLAIN if f"`{kind}`" not in TEXT] == []


def test_the_failures_on_the_page_exist() -> None:
    named = re.findall(r"^\| `([A-Z]\w+)` \|", TEXT, re.MULTILINE)
    assert len(named) > 4
    assert [name for name in named if not hasattr(failures, name)] == []
