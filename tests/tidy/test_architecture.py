"""ARCHITECTURE.md names files that exist, every package, and every floor as the import contracts have it."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "siltstone"
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(targets) >= 8
    for target in targets:
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([\w/]+\.py)`", TEXT))))
def test_every_file_named_exists(name: str) -> None:
    assert list(SOURCE.rglob(name)), name


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:[a-z_]+/)+)`", TEXT))))
def test_every_folder_named_exists(name: str) -> None:
    in_source = [
        path for path in SOURCE.rglob(name.rstrip("/").rpartition("/")[2]) if f"{path}/".endswith(f"/{name}")
    ]
    assert in_source or (ROOT / name).is_dir()


def test_the_code_map_has_every_package_on_its_floor() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", TEXT, re.MULTILINE)
    floors = {package: int(floor) for floor, package in rows}
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(floors) == packages
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    for floor, layer in enumerate(reversed(layers)):
        for package in layer.split(" | "):
            assert floors[package] == floor, package


def test_every_test_folder_is_told() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()} - {"support", "__pycache__"}
    assert {folder for folder in folders if not re.search(rf"`(?:tests/)?{folder}`", TEXT)} == set()


def test_decisions_are_numbered_without_gap_or_repetition() -> None:
    numbers = [int(path.name[:4]) for path in DECISIONS]
    assert numbers == list(range(1, len(numbers) + 1))
    for path, number in zip(DECISIONS, numbers, strict=True):
        assert re.match(rf"# 0*{number}[.:]? ", path.read_text()), path.name
