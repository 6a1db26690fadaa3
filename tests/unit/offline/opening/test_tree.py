import msgspec
import pytest

from siltstone.model.errors import InvalidRequest
from siltstone.offline.opening.tree import build_tree, environment_name, settings_of, unknown_key, values_of
from siltstone.offline.opening.values import SettingRefused


class Leaf(msgspec.Struct, frozen=True):
    size_bytes: int = 5
    name: str = "x"

    def __post_init__(self) -> None:
        if self.size_bytes > 100:
            raise InvalidRequest("size_bytes is too large")


class Tree(msgspec.Struct, frozen=True):
    count: int = 1
    leaf: Leaf = Leaf()


def test_leaves_have_paths() -> None:
    assert [(setting.key, setting.kind, setting.default) for setting in settings_of(Tree)] == [
        ("count", int, 1), ("leaf.size_bytes", int, 5), ("leaf.name", str, "x"),
    ]  # fmt: skip


def test_a_tree_is_built_from_some_of_its_leaves() -> None:
    assert build_tree(Tree, {"leaf.size_bytes": 7}) == Tree(1, Leaf(7, "x"))
    assert build_tree(Tree, {}) == Tree()


def test_what_a_struct_refuses_names_its_table() -> None:
    with pytest.raises(
        SettingRefused, match=r"settings in \[leaf\] are not allowed: size_bytes is too large"
    ):
        build_tree(Tree, {"leaf.size_bytes": 101})


def test_a_struct_that_names_the_setting_itself_keeps_its_words() -> None:
    class Choosy(msgspec.Struct, frozen=True):
        port: int = 0

        def __post_init__(self) -> None:
            if self.port:
                raise SettingRefused("port: write 0")

    with pytest.raises(SettingRefused, match=r"^port: write 0$"):
        build_tree(Choosy, {"port": 5})


def test_values_come_back_as_they_went_in() -> None:
    tree = Tree(2, Leaf(8, "y"))
    assert {setting.key: value for setting, value in values_of(tree)} == {
        "count": 2, "leaf.size_bytes": 8, "leaf.name": "y",
    }  # fmt: skip
    assert build_tree(Tree, {setting.key: value for setting, value in values_of(tree)}) == tree


def test_names_of_variables() -> None:
    assert environment_name("engine.wal.sync") == "SILTSTONE_ENGINE_WAL_SYNC"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("leaf.size_byte", "leaf.size_bytes?"),
        ("size_bytes", "leaf.size_bytes?"),
        ("zzz", "zzz is not a setting; known are "),
        ("leaf.zzz", "known are leaf.size_bytes"),
    ],
)
def test_an_unknown_key_gets_the_nearest_one(key: str, hint: str) -> None:
    known = {setting.key: setting for setting in settings_of(Tree)}
    assert hint in str(unknown_key(key, known, "here"))
