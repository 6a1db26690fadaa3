"""TL17: ``serve --check`` prints a line for each check, starts nothing, and ends with 0 or 2."""

import socket
from pathlib import Path

import pytest

from siltstone.cli.serve import command as module
from support.processes.cli import assert_one_line, run


@pytest.fixture(autouse=True)
def nothing_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def served(*_: object, **__: object) -> None:
        raise AssertionError("a node was started")

    monkeypatch.setattr(module, "_serve_one", served)
    monkeypatch.setattr(module, "_serve_several", served)


def test_tl17_a_start_that_would_succeed_ends_with_0(tmp_path: Path) -> None:
    done = run("serve", "--check", "--store", tmp_path / "store", "--listener", "127.0.0.1:0")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert all(line.startswith("ok      ") for line in lines)
    checked = " ".join(line.split(maxsplit=1)[1].split(":")[0] for line in lines)
    for what in ("settings", "listener", "write-ahead log", "metadata", "authorization", "bucket 0", "port"):
        assert what in checked
    assert [*tmp_path.iterdir()] == []


def test_tl17_a_start_that_would_be_refused_ends_with_2_and_checks_everything(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"SSL://127.0.0.1:{taken.getsockname()[1]}"
        done = run("serve", "--check", "--store", tmp_path / "store", "--listener", at)
    assert done.status == 2
    wrong = [line for line in done.out.splitlines() if line.startswith("refused")]
    assert len(wrong) == 2
    assert "listener.SSL.tls_certificate_file is missing" in wrong[0]
    assert "another process listens there" in wrong[1]
    assert [*tmp_path.iterdir()] == []


def test_tl17_every_node_of_a_machine_needs_its_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(
            "serve",
            "--check",
            "--nodes",
            2,
            "--store",
            tmp_path / "store",
            "--listener",
            f"127.0.0.1:{port - 1}",
        )
    assert done.status == 2
    assert f"refused port {port}" in done.out


def test_the_check_makes_no_certificate(tmp_path: Path) -> None:
    done = run("serve", "--check", "--tls-self-signed", "--store", tmp_path / "store")
    assert_one_line(done, 2)
    assert "--check writes nothing" in done.err
