"""docs/metadata-tables.md works: its commands and programs are run, and its columns are those of the code."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.metadata_tables.catalog import METADATA_TABLES
from support.kafka.quiet_client import QUIET
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import blocks
from support.pages.metadata_tables_page import PAGE, written

pytestmark = pytest.mark.xdist_group("metadata page")

TEXT = PAGE.read_text()
COMMANDS = blocks(PAGE, "sh")
PROGRAMS = blocks(PAGE, "python")
RUN = [*COMMANDS, *PROGRAMS]


def test_the_columns_are_those_of_the_code() -> None:
    assert written(TEXT) == TEXT, "run: python tests/support/pages/metadata_tables_page.py"
    assert [name for name in METADATA_TABLES if f"### {name}\n" not in TEXT] == []


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.nightly(tried="pages")
def test_the_blocks_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    bare = BareEnvironment(tmp_path / "bare")
    with siltstone.Broker(tmp_path / "my-store") as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        for number in range(100):
            producer.produce("flights", str(number))
        assert producer.flush(60) == 0
    shown = []
    for line in "\n".join(COMMANDS).split("siltstone sql ")[1:]:
        done = bare.run(f"siltstone sql {line}", tmp_path)
        assert done.returncode == 0, (line, done)
        shown.append(done.stdout)
    assert "flights\t" in shown[0] and shown[1].startswith("topic\tpartitions") and "0" in shown[2]
    for number, program in enumerate(PROGRAMS):
        (tmp_path / f"program{number}.py").write_text(program)
        done = bare.run(f"python program{number}.py", tmp_path)
        assert done.returncode == 0, done
        shown.append(done.stdout)
    assert "flights" in shown[-2] and "COMMITTED" in shown[-1], shown
