"""docs/from-zerobus.md works: the producer of the page, with one line changed, fills a table."""

from functools import partial
from pathlib import Path

import deltalake
import pytest

import siltstone
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import ROOT, blocks

PAGE = ROOT / "docs" / "from-zerobus.md"
COMMANDS = blocks(PAGE, "sh")
PROGRAMS = blocks(PAGE, "python")
RUN = [*COMMANDS, *PROGRAMS]
ADDRESS = '"localhost:9092"'


@pytest.mark.timeout(300)
def test_the_producer_of_the_page_fills_a_table_with_keys(tmp_path: Path) -> None:
    bare = BareEnvironment(tmp_path / "bare")
    (made, exported), (program,) = COMMANDS, PROGRAMS
    assert program.count(ADDRESS) == 1, "one line changes"
    with siltstone.Broker(tmp_path / "my-store") as broker:
        shown = partial(bare.outputs, folder=tmp_path, SILTSTONE_BOOTSTRAP=broker.bootstrap_servers)
        shown(made)
        (tmp_path / "producer.py").write_text(program.replace(ADDRESS, f'"{broker.bootstrap_servers}"'))
        shown("python producer.py")
        _, table, tail = shown(exported)
        assert "total\tdouble" in table or "total: double" in table, table
        assert "customer-2" in tail
    rows = deltalake.DeltaTable(tmp_path / "my-store/tables/kafka/orders").to_pyarrow_table().to_pylist()
    found = {row["kafka"]["key"]: (row["id"], row["total"]) for row in rows}
    assert found == {b"customer-%d" % number: (number, 9.5 * number) for number in range(3)}
