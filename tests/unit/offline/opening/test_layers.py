from pathlib import Path

import pytest

from siltstone.offline.opening.layers import (
    FILE_BYTES_MAX,
    NOT_SETTINGS,
    Layer,
    environment_layer,
    file_layer,
    flags_layer,
)
from siltstone.offline.opening.values import SettingRefused
from support.values.left_out import numbers_left_out

KEYS = {"engine.node_id": None, "metadata": None}


def test_a_file_is_flattened(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('metadata = "x"\n[engine]\nnode_id = 1\n[buckets]\n0 = "a"\n')
    layer = file_layer(file)
    assert layer.values == {"metadata": "x", "engine.node_id": 1, "buckets.0": "a"}
    assert (layer.origin, layer.is_text) == (str(file), False)


@pytest.mark.parametrize("content", [b"][", b"\xff\xfe"])
def test_a_file_that_is_no_toml(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.toml").write_bytes(content)
    with pytest.raises(SettingRefused, match=r"settings file .*s\.toml"):
        file_layer(tmp_path / "s.toml")


def test_a_file_that_never_ends_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingRefused, match="more than 1048576 bytes"):
        file_layer(Path("/dev/zero"))
    longest = tmp_path / "s.toml"
    longest.write_bytes(b"#" * FILE_BYTES_MAX)
    assert file_layer(longest).values == {}


def test_variables_become_keys_and_others_are_left_alone() -> None:
    environment = {
        "SILTSTONE_ENGINE_NODE_ID": "1",
        "SILTSTONE_BUCKETS_2": "b",
        "HOME": "/",
        **dict.fromkeys(NOT_SETTINGS, "x"),
    }
    assert environment_layer(environment, KEYS).values == {"engine.node_id": "1", "buckets.2": "b"}


def test_a_variable_that_names_nothing_is_refused() -> None:
    with pytest.raises(SettingRefused, match="SILTSTONE_NODE"):
        environment_layer({"SILTSTONE_NODE": "1"}, KEYS)


def test_flags_are_texts() -> None:
    layer = flags_layer({"engine.node_id": "2"}, "command line")
    assert (layer.origin, layer.values, layer.is_text) == ("command line", {"engine.node_id": "2"}, True)


def test_what_is_left_out() -> None:
    assert numbers_left_out(Layer) == {"is_text": True}
