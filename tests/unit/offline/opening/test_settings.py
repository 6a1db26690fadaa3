"""The settings of a store without a node: its keys are checked, and the keys of nodes are passed over."""

from pathlib import Path

import pytest

from siltstone.offline.opening.settings import (
    NODE_PLACES,
    NODE_SECTIONS,
    STORE_SETTINGS,
    is_of_node,
    load_store_settings,
)
from siltstone.offline.opening.values import SettingRefused
from siltstone.server.settings.listeners import settings_of_listener
from siltstone.server.settings.node import SETTINGS, load_node_settings

FILE = """
metadata = "postgresql://me@h/db"
wal_folder = "logs"
listeners = ["127.0.0.1:9092"]
buckets.1 = "s3://b/p"
topics."retention.ms" = "1d"
listener.OUTSIDE.protocol = "SSL"
[engine]
node_id = 7
[sweep]
grace_period_ms = "1min"
[broker]
producer_id_expiration_ms = "3h"
"""


def test_every_key_is_one_of_a_store_or_of_a_node() -> None:
    """A new section of nodes is named in NODE_SECTIONS, or a scan would refuse a file that has it."""
    keys = [*SETTINGS, *settings_of_listener("OUTSIDE"), "topics.retention.ms"]
    assert [key for key in keys if key not in STORE_SETTINGS and not is_of_node(key)] == []
    assert keys and set(STORE_SETTINGS) <= set(SETTINGS)
    heads = {key.partition(".")[0] for key in keys}
    assert heads >= set(NODE_SECTIONS) | set(NODE_PLACES), "a section that no node has any more"


def test_a_store_and_its_node_read_the_same_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "siltstone.toml").write_text(FILE)
    environment = {"SILTSTONE_SWEEP_GRACE_PERIOD_MS": "2min", "SILTSTONE_ENGINE_NODE_ID": "9"}
    store = load_store_settings(tmp_path, environment=environment)
    node = load_node_settings(tmp_path, environment=environment)
    for name in store.__struct_fields__:
        assert getattr(store, name) == getattr(node, name), name
    assert store.sweep.grace_period_ms == 120_000 and node.engine.node_id == 9
    assert store.producer_id_expiration_ms == node.broker.producer_id_expiration_ms == 3 * 3_600_000


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("sweep.grace_period = 1", "sweep.grace_period is not a setting; did you mean sweep.grace_period_ms"),
        ("bucket.0 = 's3://b'", "bucket.0 is not a setting"),
        ("buckets.x = 's3://b'", "buckets are numbered"),
        ("retry = 3", "retry is not a setting"),
        ("sweep.grace_period_ms = 'soon'", "soon"),
    ],
)
def test_a_mistyped_key_of_a_store_is_refused(tmp_path: Path, line: str, error: str) -> None:
    (tmp_path / "siltstone.toml").write_text(line)
    with pytest.raises(SettingRefused, match=error):
        load_store_settings(tmp_path, environment={})


def test_what_only_a_node_knows_is_not_checked(tmp_path: Path) -> None:
    (tmp_path / "siltstone.toml").write_text("engine.nod_id = 1\nlistener.X.tls = 'yes'\n")
    environment = {"SILTSTONE_LISTENER_X_ANYTHING": "1", "SILTSTONE_WAL_FOLDER": "logs"}
    assert load_store_settings(tmp_path, environment=environment).folder == tmp_path
    with pytest.raises(SettingRefused, match=r"engine\.nod_id is not a setting"):
        load_node_settings(tmp_path, environment={})
    with pytest.raises(SettingRefused, match="SILTSTONE_SWEPT is not a setting"):
        load_store_settings(tmp_path, environment={"SILTSTONE_SWEPT": "1"})


def test_a_password_of_the_metadata_is_never_printed(tmp_path: Path) -> None:
    environment = {"SILTSTONE_METADATA": "postgresql://me:s3cret@h/db"}
    found = load_store_settings(tmp_path, environment=environment)
    assert "metadata = postgresql://me:****@h/db" in str(found)
    assert "s3cret" not in f"{found} {found!r}"
