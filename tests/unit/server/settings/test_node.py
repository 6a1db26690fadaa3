"""Where settings come from, which source wins, and what is said of those that cannot be."""

from pathlib import Path

import pytest

from siltstone.model import limits
from siltstone.offline.opening.tree import environment_name
from siltstone.offline.opening.values import SettingRefused
from siltstone.server.settings.node import SETTINGS, NodeSettings, load_node_settings
from siltstone.stream_engine.settings import WalSync


def settings(folder: Path, **sources: object) -> NodeSettings:
    return load_node_settings(folder, **{"environment": {}, **sources})  # type: ignore[arg-type]


def test_a_store_is_a_folder_with_everything_in_it(tmp_path: Path) -> None:
    found = settings(tmp_path / "a store")
    assert found.metadata == f"sqlite://{tmp_path}/a%20store/metadata.sqlite"
    assert found.wal_folder == tmp_path / "a store" / "wal" / "node-0"
    assert found.buckets == {0: f"file://{tmp_path}/a%20store/bucket"}
    assert (found.advertised_listeners, found.listener_security_protocol_map) == ("", "")
    assert not (tmp_path / "a store").exists()


def test_a_relative_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert settings(Path("here")).folder == tmp_path / "here"


def test_every_default_is_the_one_of_the_limits(tmp_path: Path) -> None:
    found = settings(tmp_path)
    assert found.engine.upload.split_size_bytes == limits.SPLIT_SIZE_BYTES
    assert found.read.block_cache_bytes_max == limits.BLOCK_CACHE_BYTES_MAX
    assert found.retry.attempts_max == limits.STORE_ATTEMPTS_MAX


def test_flags_win_over_the_environment_over_the_file_over_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "siltstone.toml").write_text(
        '[engine]\nnode_id = 3\n[engine.upload]\nsplit_size_bytes = "1MiB"\nblock_size_bytes = "2KiB"\n'
        'cache_block_bytes_max = "3MiB"\n[buckets]\n0 = "memory:file"\n1 = "memory:one"\n'
    )
    found = settings(
        tmp_path,
        environment={
            "SILTSTONE_ENGINE_UPLOAD_SPLIT_SIZE_BYTES": "5MiB",
            "SILTSTONE_ENGINE_UPLOAD_BLOCK_SIZE_BYTES": "6KiB",
            "SILTSTONE_BUCKETS_0": "memory:environment",
            "SILTSTONE_STORE": "elsewhere",
            "PATH": "/bin",
        },
        flags={"engine.upload.split_size_bytes": "7MiB"},
    )
    assert found.engine.upload.split_size_bytes == 7 * limits.MIB
    assert found.engine.upload.block_size_bytes == 6 * limits.KIB
    assert found.engine.upload.cache_block_bytes_max == 3 * limits.MIB
    assert found.engine.upload.cache_block_age_ms_max == limits.CACHE_BLOCK_AGE_MS_MAX
    assert found.buckets == {0: "memory:environment", 1: "memory:one"}
    assert found.wal_folder == tmp_path / "wal" / "node-3"


def test_another_file_is_read_instead_of_the_one_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "siltstone.toml").write_text("no TOML at all")
    other = tmp_path / "other.toml"
    other.write_text(
        'wal_folder = "fast disk"\nmetadata = "sqlite:///m.sqlite"\n[engine.wal]\nsync = "never"\n'
    )
    found = settings(tmp_path / "store", config=other)
    assert found.engine.wal.sync is WalSync.NEVER
    assert found.wal_folder == tmp_path / "store" / "fast disk"
    assert found.metadata == "sqlite:///m.sqlite"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[engine]\nnode_idd = 1", ["engine.node_idd is not a setting", "did you mean engine.node_id?"]),
        ("split_size_bytes = 1", ["did you mean", ".split_size_bytes?"]),
        ("[zzz]\nyyy = 1", ["zzz.yyy is not a setting; known are metadata, "]),
        ("[buckets]\nfirst = 'memory:x'", ["buckets.first", "numbered"]),
        ("[buckets]\n0 = 5", ["buckets.0: 5", "a text"]),
        (
            "[engine.wal]\nsync = 'sometimes'",
            ['engine.wal.sync: "sometimes"', "every-group, every-interval, never"],
        ),
        (
            "[engine.wal]\ncapacity_bytes = '1MiB'",
            ["settings in [engine.wal] are not allowed: wal.capacity_bytes (1048576)"],
        ),
        ("[engine]\nnode_id = '1'", ['engine.node_id: "1"', "whole number"]),
        (
            "[compaction]\nmemory_bytes = '5GiB'",
            ["settings in [compaction] are not allowed: memory_bytes is 5368709120"],
        ),
        ("engine = 5", ["engine is not a setting"]),
        ("][", ["is not valid TOML"]),
        (
            '[topics]\n"retention.ms" = "1 fortnight"',
            ["[topics]", "retention.ms"],
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str, parts: list[str]) -> None:
    (tmp_path / "siltstone.toml").write_text(text)
    with pytest.raises(SettingRefused) as refusal:
        settings(tmp_path)
    for part in parts:
        assert part in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingRefused, match=r"missing\.toml cannot be read: No such file"):
        settings(tmp_path, config=tmp_path / "missing.toml")


def test_a_file_is_no_folder_of_a_store(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a file")
    with pytest.raises(SettingRefused, match=f"{tmp_path / 'notes.txt'} is a file, and a store is a folder"):
        settings(tmp_path / "notes.txt")


def test_a_folder_that_may_not_be_entered_is_named_and_not_a_file_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = Path.stat

    def refused(path: Path, **options: bool) -> object:
        if path.name == "siltstone.toml":
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(
        SettingRefused, match=r"the store's folder .* cannot be entered: Permission denied"
    ) as caught:
        settings(tmp_path)
    assert "siltstone.toml" not in str(caught.value)


def test_a_misspelt_variable_is_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(SettingRefused, match="SILTSTONE_ENGINE_NODE is not a setting"):
        settings(tmp_path, environment={"SILTSTONE_ENGINE_NODE": "1"})


def test_no_two_keys_share_a_variable() -> None:
    assert len({environment_name(key) for key in SETTINGS}) == len(SETTINGS)


def test_it_is_frozen_and_prints_every_key(tmp_path: Path) -> None:
    found = settings(tmp_path)
    with pytest.raises(AttributeError):
        found.folder = tmp_path  # type: ignore[misc]
    printed = str(found)
    for key in SETTINGS:
        assert f"{key} = " in printed
    assert "engine.upload.split_size_bytes = 16 MiB" in printed


def test_defaults_of_a_program_yield_to_every_source(tmp_path: Path) -> None:
    key = "engine.node_id"
    assert settings(tmp_path, defaults={key: "5"}).engine.node_id == 5
    assert (
        settings(tmp_path, defaults={key: "5"}, environment={"SILTSTONE_ENGINE_NODE_ID": "6"}).engine.node_id
        == 6
    )
    (tmp_path / "siltstone.toml").write_text("engine.node_id = 7\n")
    assert settings(tmp_path, defaults={key: "5"}).engine.node_id == 7
    with pytest.raises(SettingRefused, match="defaults"):
        settings(tmp_path, defaults={"engine.no_such": "1"})


def test_listeners_have_a_default_and_may_be_a_text_or_a_list(tmp_path: Path) -> None:
    assert settings(tmp_path).listeners == "127.0.0.1:9092"
    assert settings(tmp_path).advertised_listeners == ""
    file = tmp_path / "siltstone.toml"
    file.write_text('listeners = ["A://:1", "B://:2"]\nadvertised_listeners = "A://a:1,B://b:2"\n')
    found = settings(tmp_path)
    assert (found.listeners, found.advertised_listeners) == ("A://:1,B://:2", "A://a:1,B://b:2")
    found = settings(
        tmp_path, environment={"SILTSTONE_LISTENERS": "C://:3"}, flags={"advertised_listeners": "C://c:3"}
    )
    assert (found.listeners, found.advertised_listeners) == ("C://:3", "C://c:3")
    file.write_text("listeners = [1, 2]")
    with pytest.raises(SettingRefused, match=r"listeners: \[1, 2\] is not allowed; use a text"):
        settings(tmp_path)


@pytest.mark.parametrize(
    ("key", "written", "expected"),
    [
        ("retention.ms", "1d", "86400000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", " 1.5 h ", "5400000"),
        ("log.retention.ms", "2min", "120000"),
        ("max.message.bytes", "16MiB", "16777216"),
        ("compression.type", "lz4", "lz4"),
    ],
)
def test_topics_durations_and_sizes_are_written_as_all_others(
    tmp_path: Path, key: str, written: str, expected: str
) -> None:
    name = key.removeprefix("log.")
    found = settings(tmp_path, flags={f"topics.{key}": written})
    assert found.broker.topic_defaults[name] == expected
    (tmp_path / "siltstone.toml").write_text(f'[topics]\n"{key}" = "{written}"\n')
    assert settings(tmp_path).broker.topic_defaults[name] == expected


def test_a_refusal_says_where_the_setting_was_given(tmp_path: Path) -> None:
    with pytest.raises(SettingRefused, match=r"^command line: engine\.nod_id is not a setting"):
        settings(tmp_path, flags={"engine.nod_id": "1"})
    with pytest.raises(SettingRefused, match=r"^here: engine\.node_id: \"x\" is not allowed"):
        settings(tmp_path, flags={"engine.node_id": "x"}, origin="here")


def test_the_password_of_the_metadata_is_never_printed(tmp_path) -> None:
    url = "postgresql://me:s3cret@h/db?schema=flights"
    found = load_node_settings(tmp_path, environment={"SILTSTONE_METADATA": url})
    assert found.metadata == url
    assert "metadata = postgresql://me:****@h/db?schema=flights" in str(found)
    assert "s3cret" not in f"{found} {found!r}"
