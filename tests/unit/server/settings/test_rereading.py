from pathlib import Path

import pytest

from siltstone.model.errors import InvalidRequest
from siltstone.server.settings.node import NodeSettings, load_node_settings
from siltstone.server.settings.rereading import changed_settings, reread_words


def loaded(folder: Path, text: str) -> NodeSettings:
    (folder / "siltstone.toml").write_text(text)
    return load_node_settings(folder, environment={})


def test_op05_the_settings_that_have_changed_are_named_and_no_value(tmp_path: Path) -> None:
    before = loaded(tmp_path, 'listeners = "127.0.0.1:9092"\n[admin]\nlisteners = "127.0.0.1:9644"\n')
    after = loaded(
        tmp_path,
        'listeners = "127.0.0.1:9999"\n[topics]\n"retention.ms" = "3d"\n'
        '[listener.OUT]\ntls_certificate_file = "new.pem"\n[engine.wal]\nsegment_bytes = "32MiB"\n',
    )
    changed = changed_settings(before, after)
    assert set(changed) >= {
        "listeners", "admin.listeners", "topics.retention.ms", "engine.wal.segment_bytes",
        "listener.OUT.tls_certificate_file",
    }  # fmt: skip
    words, is_to_be_done = reread_words(before, lambda: after)
    assert is_to_be_done and "Changed since the start, and taken by the next one: " in words
    assert "engine.wal.segment_bytes" in words and "9999" not in words and "new.pem" not in words


def test_op05_nothing_has_changed(tmp_path: Path) -> None:
    before = loaded(tmp_path, 'listeners = "127.0.0.1:9092"\n')
    assert changed_settings(before, loaded(tmp_path, 'listeners = "127.0.0.1:9092"\n# a remark\n')) == ()
    words, is_to_be_done = reread_words(before, lambda: before)
    assert not is_to_be_done and "no setting has changed" in words and "certificates" in words


@pytest.mark.parametrize(
    "failure", [InvalidRequest("prot is no setting"), PermissionError(13, "Permission denied")]
)
def test_op05_settings_that_are_refused_are_said_before_the_next_start_fails(
    failure: Exception, tmp_path: Path
) -> None:
    def refuse() -> NodeSettings:
        raise failure

    words, is_to_be_done = reread_words(loaded(tmp_path, ""), refuse)
    assert is_to_be_done and "the next start would be refused" in words and str(failure) in words
