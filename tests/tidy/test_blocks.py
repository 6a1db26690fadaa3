"""Every fenced block of every document is run by a test, or a comment before it says why not. The blocks of the pages
that have no test of their own are run here, in a bare environment."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from siltstone.server.embedded import Broker
from support.engine.small_store import small_store
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import PAGES, ROOT, blocks, fenced

RUN_BY = {
    "README.md": "tests/integration/test_readme.py",
    "docs/quick-start.md": "tests/integration/test_quick_start.py",
    "docs/testing-your-code.md": "tests/integration/test_testing_page.py",
    "docs/s3.md": "tests/integration/test_s3_page.py",
    "docs/operations.md": "tests/integration/test_operations_page.py",
    "docs/cluster.md": "tests/integration/test_cluster_page.py",
    "docs/buckets.md": "tests/integration/test_several_buckets.py",
    "docs/maintenance.md": "tests/tidy/test_blocks.py",
    "docs/retention.md": "tests/tidy/test_blocks.py",
    "docs/tables.md": "tests/integration/test_tables_page.py",
    "docs/metadata-tables.md": "tests/spark/test_metadata_page.py",
    "docs/security.md": "tests/integration/test_security_page.py",
    "docs/authorization.md": "tests/integration/test_authorization_page.py",
    "docs/quotas.md": "tests/integration/test_quotas.py",
    "docs/audit.md": "tests/integration/test_audit.py",
    "docs/from-zerobus.md": "tests/integration/test_zerobus_page.py",
    "docs/real-time.md": "tests/spark/test_real_time_page.py",
}
"""Page → the test file that runs its blocks; its ``RUN`` is a list of them."""

MAINTENANCE = blocks(ROOT / "docs" / "maintenance.md", "sh")
MAINTENANCE_PROGRAMS = blocks(ROOT / "docs" / "maintenance.md", "python")
RETENTION = blocks(ROOT / "docs" / "retention.md", "sh")
RUN = [*MAINTENANCE, *MAINTENANCE_PROGRAMS, *RETENTION]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def module_of(file: str) -> ModuleType:
    spec = spec_from_file_location("runs_blocks", ROOT / file)
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", [page for page in PAGES if fenced(page)], ids=name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    wanted = [text for text, reason in fenced(page) if reason is None]
    run = module_of(RUN_BY[name(page)]).RUN if name(page) in RUN_BY else []
    assert [text for text in wanted if text not in run] == [], (
        "run it, or write <!-- not run: reason --> before it"
    )


def test_the_blocks_that_are_not_run_are_these() -> None:
    reasons = {
        f"{name(page)}: {reason}" for page in PAGES for _, reason in fenced(page) if reason is not None
    }
    assert reasons == {
        "ARCHITECTURE.md: a drawing",
        "docs/audit.md: it waits for further records",
        "docs/console.md: it opens a port and runs until Ctrl-C",
        "docs/console.md: it runs until Ctrl-C",
        "docs/formats.md: a drawing",
        "docs/bucket-log.md: a part of siltstone.toml",
        "README.md: make test runs this test, and make demo is the demo below with all its flights",
        "docs/groups.md: a diagram, made from the table of states",
        "docs/metrics.md: a configuration of Prometheus, which the tests do not have",
        "docs/metrics.md: tests/integration/test_metrics.py scrapes both services, at ports that are free",
        "docs/operations.md: tests/integration/test_clients_command.py runs it beside brokers",
        "docs/operations.md: it serves until it is stopped; tests/integration/test_serve_nodes.py runs it",
        "docs/operations.md: it serves until it is stopped; tests/integration/test_failover.py runs it",
        "docs/metrics.md: it serves until it is stopped; tests/integration/test_otlp.py runs it with a receiver of"
        " its own",
        "docs/metrics.md: PromQL; tests/integration/test_alert_rules.py asks promtool",
        "docs/operations.md: a formula; tests/integration/test_operations_page.py computes the table below it",
        "docs/production.md: there is no Kubernetes where the tests run; tests/integration/test_chart.py renders the"
        " chart",
        "docs/buckets.md: tests/integration/test_several_buckets.py does so while a producer writes",
        "docs/buckets.md: tests/integration/test_several_buckets.py does so with a real broker",
        "docs/buckets.md: tests/integration/test_several_buckets.py does so",
        "docs/postgresql.md: the database of the example does not exist; "
        "tests/integration/test_postgres_store.py serves a store from one",
        "docs/postgresql.md: the database of the example does not exist; "
        "tests/integration/test_metadata_copy.py runs the command",
        "docs/quick-start.md: a list, compared with the jars that siltstone.spark.session fetches",
        "docs/reference.md: tests/spark/test_pipelines.py runs the project with these arguments",
        "docs/s3.md: the test's own SeaweedFS is started with ports and keys of its own",
        "docs/tables.md: a value of a configuration; tests/unit/tables/test_rounds_nested.py exports such"
        " columns",
        "docs/tables.md: the registry of the example does not exist; "
        "tests/unit/tables/test_rounds_schemas.py starts one",
        "docs/tables.md: the catalog of the example does not exist; "
        "tests/unit/server/settings reads the same settings",
        "docs/s3.md: the test's own MinIO has another port, and its bucket is made by an S3 client",
        "docs/s3.md: there is no AWS where the tests run",
        "docs/security.md: it installs from an index",
        "docs/security.md: a broker has the port of the example; tests/unit/cli/serve/test_checking.py runs it",
    }


def test_a_block_that_nobody_runs_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: a drawing -->\n```\n|\n```\n\n```sh\nsiltstone nonsense\n```\n")
    assert fenced(page) == [("|\n", "a drawing"), ("siltstone nonsense\n", None)]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    return BareEnvironment(tmp_path_factory.mktemp("bare"))


def test_maintenance_at_the_command_line(bare: BareEnvironment, tmp_path: Path) -> None:
    """``run`` and ``serve`` without a JVM, ``serve`` once; there is no job 7 and no scan pin T."""
    small_store(tmp_path / "siltstone-data")
    block, _ = MAINTENANCE
    for line in block.splitlines():
        command = line.partition("#")[0].strip()
        command += {"run": " --runner in-process", "serve": " --runner in-process --once"}.get(
            command.split()[2], ""
        )
        done = bare.run(command, tmp_path)
        assert done.returncode == (2 if command.endswith(("cancel 7", "unpin T")) else 0), (
            f"{command}: {done}"
        )


def test_erasing_by_key(bare: BareEnvironment, tmp_path: Path) -> None:
    _, block = MAINTENANCE
    with Broker(tmp_path / "my-store") as broker:
        said = [
            bare.run(line, tmp_path, SILTSTONE_BOOTSTRAP=broker.bootstrap_servers)
            for line in block.splitlines()
        ]
    assert [done.returncode for done in said] == [0, 0, 0, 0], said
    assert "Nothing was changed" in said[1].stdout
    assert "none is of the keys" in said[2].stdout and (tmp_path / "erased.json").exists()
    assert "orders\t1\t" in said[3].stdout


def test_maintenance_from_python(bare: BareEnvironment, tmp_path: Path) -> None:
    """The program runs maintenance in this process, as its comment says; the README's second program starts a Spark."""
    small_store(tmp_path / "my-store")
    (program,) = MAINTENANCE_PROGRAMS
    assert '.run("local[*]")' in program
    (tmp_path / "program.py").write_text(program.replace('"local[*]"', ""))
    done = bare.run("python program.py", tmp_path)
    assert done.returncode == 0 and "sso-compaction" in done.stdout, done


def test_retention_that_waits_for_groups(
    bare: BareEnvironment, tmp_path: Path, siltstone_broker: Broker
) -> None:
    siltstone_broker.create_topic("orders")
    (line,) = RETENTION
    done = bare.run(line, tmp_path, SILTSTONE_BOOTSTRAP=siltstone_broker.bootstrap_servers)
    assert done.returncode == 0 and "billing,search" in done.stdout, done
