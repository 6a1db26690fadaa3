"""``siltstone erase`` on a store that a broker has left."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)

import siltstone
from siltstone.cli.erase.command import keys_of
from siltstone.cli.erase.signing import signature_of
from siltstone.maintenance.erasing import ErasureRefused
from siltstone.server.embedded import Broker
from support.processes.cli import Outcome, run

LINES = b"ada,1\nbob,2\nada,3\ncleo,4\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``orders`` has four records, ``sheet`` is kept as a table, and ``fields`` as one with fields of keys."""
    folder = tmp_path / "store"
    with Broker(folder) as broker:
        broker.create_topic("orders", partitions=1)
        broker.create_topic("sheet", partitions=1, config={"siltstone.table.format": "parquet"})
        fields = {"siltstone.table.key": "json", "siltstone.table.key.columns": "id long"}
        broker.create_topic("fields", partitions=1, config={"siltstone.table.format": "parquet", **fields})
        for topic in ("orders", "sheet"):
            assert run("produce", topic, "-b", broker.bootstrap_servers, "-K", ",", stdin=LINES).status == 0
    return folder


def erase(folder: Path, *words: object) -> Outcome:
    return run("erase", *words, "--runner", "in-process", "--store", folder, COLUMNS=None)


def keys_in(folder: Path, topic: str = "orders") -> list[str]:
    return [bytes(key).decode() for key in siltstone.scan(topic, store=folder).to_arrow()["key"].to_pylist()]


def test_records_of_several_keys_leave_at_once(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"ada\r\n\ncleo\n")
    done = erase(folder, "orders", "--keys-from", tmp_path / "keys", "--key-hex", "7a7a", "--yes")
    assert done.status == 0, done
    assert keys_in(folder) == ["bob"]
    assert "3 keys, named by HMAC-SHA-256" in done.out
    assert "verified; 2 replaced objects not deleted from the buckets yet" in done.out


def test_without_a_yes_nothing_is_done(folder: Path) -> None:
    done = erase(folder, "orders", "--key", "ada")
    assert (done.status, done.out) == (2, "")
    assert "Erase all records of 1 key from orders, for good?" in done.err
    assert len(keys_in(folder)) == 4


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nowhere", "--key", "a"), "there is no topic nowhere in this store"),
        (("__consumer_offsets", "--key", "a"), "internal topic|there is no topic"),
        (("orders",), "no key was given"),
        (("orders", "--key-hex", "7"), "--key-hex 7 is not hexadecimal"),
        (("orders", "--keys-from", "/does/not/exist"), "cannot be read: No such file"),
        (
            ("fields", "--key", "ada"),
            "kept as table kafka.fields, which has fields of the keys and not their bytes.*--leave-tables",
        ),
        (("orders", "--key", "a", "--sign-with", "key.pem"), "add --report FILE"),
    ],
)
def test_what_cannot_be_erased_is_refused(folder: Path, words: tuple[str, ...], why: str) -> None:
    done = erase(folder, *words, "--yes")
    assert done.status != 0
    assert re.search(why, done.err), done


def test_rows_of_a_table_are_left_when_that_is_said(folder: Path) -> None:
    assert erase(folder, "sheet", "--key", "ada", "--leave-tables", "--yes").status == 0
    assert keys_in(folder, "sheet") == ["bob", "cleo"]


def test_a_dry_run_changes_nothing(folder: Path) -> None:
    done = erase(folder, "orders", "--key", "ada", "--dry-run")
    assert done.status == 0
    assert "2 records in 1 object of 1 looked at" in done.out
    assert "Nothing was changed." in done.out
    assert len(keys_in(folder)) == 4
    assert "0 records in 0 objects" in erase(folder, "orders", "--key", "nobody", "--dry-run").out


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Files with a private and a public key."""
    key = Ed25519PrivateKey.generate()
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def test_the_report_is_signed(folder: Path, tmp_path: Path, pair: tuple[Path, Path]) -> None:
    out = tmp_path / "report.json"
    done = erase(folder, "orders", "--key", "ada", "--yes", "--report", out, "--sign-with", pair[0])
    assert done.status == 0, done
    key: Any = load_pem_public_key(pair[1].read_bytes())
    signature = Path(f"{out}.sig").read_bytes()
    key.verify(signature, out.read_bytes())
    with pytest.raises(InvalidSignature):
        key.verify(signature, out.read_bytes().replace(b'"records": 2', b'"records": 1'))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_verifies_a_signature_as_the_page_says(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    out, beside = tmp_path / "report.json", tmp_path / "report.json.sig"
    out.write_bytes(b"{}")
    beside.write_bytes(signature_of(b"{}", pair[0]))
    check = [
        "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", pair[1], "-rawin", "-in", out, "-sigfile", beside,
    ]  # fmt: skip
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    out.write_bytes(b"[]")
    assert subprocess.run(check, capture_output=True, check=False).returncode != 0


def test_keys_are_bytes_each_once(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"\xff\nb")
    assert keys_of(("a", "b"), ("00FF",), (str(tmp_path / "keys"),)) == [b"a", b"b", b"\x00\xff", b"\xff"]
    with pytest.raises(ErasureRefused, match="no key was given"):
        keys_of((), (), ())
