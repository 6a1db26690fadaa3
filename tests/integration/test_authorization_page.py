"""docs/authorization.md is true: its commands are run, and its role of PostgreSQL reads and cannot write."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from siltstone.broker.security.acls.required import REQUIRED
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.metadata.leases.board import BoardUnavailable, NodeSecret
from siltstone.metadata.opening import open_board
from siltstone.model.secret import Secret
from siltstone.offline.opening.store import open_store
from siltstone.runtime.clock import SystemClock
from siltstone.server.settings.node import load_node_settings
from support.engine.small_store import small_store
from support.metadata.postgres_server import PostgresServer
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import ROOT, blocks
from support.processes.cli import Outcome, run

PAGE = ROOT / "docs" / "authorization.md"
(COMMANDS,) = blocks(PAGE, "sh")
(ROLE,) = blocks(PAGE, "sql")
POLICIES = blocks(PAGE, "json")
"""``test_s3_policies`` gives them to users of a server that enforces them."""

RUN = [COMMANDS, ROLE, *POLICIES]


def test_ac17_the_first_try(tmp_path: Path) -> None:
    small_store(tmp_path / "my-store")
    done = BareEnvironment(tmp_path / "bare").run(COMMANDS, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Authorization is on" in done.stdout
    assert "User:ada" in done.stdout


def test_the_table_names_every_api_that_is_announced_and_every_right() -> None:
    text = PAGE.read_text()
    for key in ANNOUNCED:
        assert key.name.title().replace("_", "") in text
        for row in REQUIRED[key]:
            assert row.operation.name.lower() in text


def test_the_policies_have_actions_that_the_page_about_s3_explains() -> None:
    explained = (ROOT / "docs" / "s3.md").read_text()
    broker, reader = (
        {action for statement in json.loads(text)["Statement"] for action in statement["Action"]}
        for text in POLICIES
    )
    assert reader < broker and all(f"`{action}`" in explained for action in broker)


@pytest.mark.postgres
@pytest.mark.xdist_group("postgres")
def test_nd02_a_role_that_reads_the_log_lists_and_changes_nothing_and_is_no_node(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    schema = postgres_server.new_schema()
    owner = {"metadata": postgres_server.url(schema)}
    with open_store(load_node_settings(tmp_path, environment={}, flags=owner), create=True):
        pass

    def called(url: str, *words: str) -> Outcome:
        return run("acls", *words, "--store", tmp_path, "--metadata", url)

    assert called(owner["metadata"], "add", "ada", "read", "--topic", "t").status == 0
    reader = f"reader_{schema}"
    for statement in re.sub("siltstone_reader", reader, re.sub(r"\bsiltstone\b", schema, ROLE)).split(";"):
        if statement.strip():
            postgres_server.sql(statement)
    as_reader = postgres_server.tcp_url(schema, user=reader)
    assert "User:ada" in called(as_reader, "list").out
    refused = called(as_reader, "add", "ada", "write", "--topic", "t")
    assert refused.status == 1
    assert "write" not in called(owner["metadata"], "list").out
    with closing(open_board(owner["metadata"], SystemClock())) as board:
        board.put_secret(NodeSecret(0, 1, "a life", Secret("ab" * 32)))
    with (
        closing(open_board(as_reader, SystemClock())) as board,
        pytest.raises(BoardUnavailable, match="permission denied for table node_secrets"),
    ):
        board.secrets()
