"""docs/tables.md works: its commands, its program, and the configurations and failures that it names are there."""

import re
from functools import partial
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
    (commands, found, changes, ordered, refused, mended), (program, mend) = COMMANDS, PROGRAMS
    (tmp_path / "mend.py").write_text(mend)
    with siltstone.Broker(tmp_path / "my-store") as broker:
        shown = partial(bare.outputs, folder=tmp_path, SILTSTONE_BOOTSTRAP=broker.bootstrap_servers)
        first = shown(commands)[3:]
        assert "3 rows in 1 file appended to table kafka.flights" in first[0]
        assert "flights\tkafka.flights\ticeberg\t3\t0\t0\t" in first[1]
        assert "delay\tint64" in first[2]
        *_, exported, columns = shown(found)
        assert "new field ms: long; new field user: struct<id:long>" in exported
        assert '"tags":[]' in exported and "_rescued_data\tstring" in columns
        shown(changes)
        shown(ordered)
        assert shown(refused)[-1].startswith("0 dead letters fit table kafka.flights, 1 dead letter stay")
        assert shown(mended)[-1].startswith("1 dead letter moved to table kafka.flights, 0 dead letters stay")
    (tmp_path / "program.py").write_text(program)
    done = bare.run("python program.py", tmp_path)
    assert done.returncode == 0, done
    assert "delay: [[61],[90]]" in done.stdout or "delay: [[90],[61]]" in done.stdout, done.stdout
    assert re.search(r"B6.*NULL", done.stdout) and re.search(r"AA.*61", done.stdout), done.stdout


def test_every_configuration_and_every_type_is_on_the_page() -> None:
    named = [name for name in TABLE if name.startswith("siltstone.table.")]
    assert [name for name in named if name not in TEXT] == []
    assert [kind for kind in PLAIN if f"`{kind}`" not in TEXT] == []


def test_the_failures_on_the_page_exist() -> None:
    named = re.findall(r"^\| `([A-Z]\w+)` \|", TEXT, re.MULTILINE)
    assert len(named) > 4
    assert [name for name in named if not hasattr(failures, name)] == []
