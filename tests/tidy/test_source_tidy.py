"""Checks the habits of this code that a machine can check."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.pages.pins import normal, pins_of

pytestmark = pytest.mark.xdist_group("source")  # which one worker reads, once

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "siltstone"

FILE_LINES_MAX = 500
FILE_LINES_MIN = 40
SMALL_FILES_MAX = 50
FUNCTION_LINES_MAX = 70
BANNED_WORDS = {"manager", "util", "utils", "helper", "helpers", "base", "common", "impl"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> tuple[tuple[str, str, ast.Module], ...]:
    """Returns (path below src/siltstone, text, tree) of each module."""
    read = [(path, path.read_text()) for path in sorted(SOURCE.rglob("*.py"))]
    return tuple((str(path.relative_to(SOURCE)), text, ast.parse(text)) for path, text in read)


@cache
def tracked_texts() -> dict[str, str]:
    """Returns every text file that git tracks, by its path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    texts: dict[str, str] = {}
    for name in listed.decode().split("\0"):
        try:
            texts[name] = (ROOT / name).read_text()
        except (UnicodeDecodeError, OSError):
            continue  # golden bytes, or a file that was deleted in the work tree
    return texts


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def names_of(path: str, tree: ast.Module) -> Iterator[str]:
    yield from Path(path).with_suffix("").parts
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def test_rule_15_kinds_of_maintenance_go_by_the_time_of_the_store() -> None:
    of_a_machine = re.compile(r"context\.clock\.now_ms|context\.metadata\.now_ms")
    found = {
        path.removeprefix("maintenance/")
        for path, text, _ in modules()
        if path.startswith("maintenance/") and of_a_machine.search(text)
    }
    assert found == {"service/service.py"}, "when this process runs a kind next is its own affair"


def test_there_is_something_to_check() -> None:
    assert len(modules()) > 20
    assert len(tracked_texts()) > 50


def test_no_file_holds_two_ideas() -> None:
    long = {path: lines for path, text, _ in modules() if (lines := len(text.splitlines())) > FILE_LINES_MAX}
    assert long == {}


def test_no_test_file_is_a_book() -> None:
    files = {str(path.relative_to(ROOT)): path for path in (ROOT / "tests").rglob("*.py")}
    assert len(files) > 1_000
    long = {name for name, path in files.items() if len(path.read_text().splitlines()) > FILE_LINES_MAX}
    assert long == set(), "split it by subject"


SMALL_FILES = {
    "an API or a command: one file each is the reader's index": {
        "broker/apis/api_versions.py", "broker/versions_answer.py",
        "broker/apis/elect_leaders.py",
        "broker/apis/list_config_resources.py", "broker/apis/unregister_broker.py",
        "broker/groups/apis/delete_groups.py", "cli/compact.py",
        "cli/groups/command.py", "cli/groups/delete.py", "cli/maintain/cancel.py", "cli/maintain/command.py",
        "cli/maintain/unpin.py", "cli/metadata/command.py", "cli/program.py", "__main__.py",
        "cli/tables/forget.py", "broker/transactions/apis/describing.py",
        "cli/topics/delete.py",
    },
    "nouns, errors or settings that many modules import": {
        "broker/security/node_rights.py", "broker/settings.py", "kafka_protocol/malformed.py", "offline/context.py",
        "metadata/node_address.py",
        "metadata/store_id.py", "metadata/credentials.py", "model/buffers.py", "model/errors.py", "model/version.py",
        "server/settings/admin.py",
        "stream_engine/errors.py",
    },
    "an entry from outside: public, or the place where components are put together": {
        "metadata/opening.py", "pytest_plugin/fixtures.py", "server/maintaining.py", "server/network/parts.py",
        "server/node_listeners.py", "spark/choice.py", "spark/opening.py",
    },
    "a small tool of two packages or more": {
        "cli/in_order.py", "cli/interruption.py",
        "foundation/milliseconds.py", "foundation/portions.py",
        "kafka_protocol/records/key_partition.py", "runtime/randomness.py",
    },
    "a family of commands in metadata/decisions": {"metadata/decisions/flushes.py", "metadata/decisions/keys.py"},
    "the scenery of the demo": {"cli/demo/place.py", "cli/demo/stage.py", "cli/demo/cluster/report.py",
        "cli/demo/interrupted.py",
    },
}  # fmt: skip
"""Modules below FILE_LINES_MIN lines, by the reason why each is a file of its own."""


def test_no_file_is_a_paragraph() -> None:
    small = {
        path
        for path, text, _ in modules()
        if len(text.splitlines()) < FILE_LINES_MIN
        and not path.endswith("__init__.py")
        and "/messages/" not in path  # written by tools/kafka-messages
    }
    listed = [path for paths in SMALL_FILES.values() for path in paths]
    assert len(listed) == len(set(listed)) <= SMALL_FILES_MAX
    assert small - set(listed) == set(), "join it to its only user, or list it with the reason"
    assert [path for path in listed if not (SOURCE / path).exists()] == []


def test_pure_means_in_a_contract() -> None:
    """A module that says Pure is below the I/O line, or in the contract that keeps it so."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    kept = [
        name.removeprefix("siltstone.")
        for contract in contracts
        if contract.get("id") in {"io-line", "pure-by-name"}
        for name in contract["source_modules"]
    ]
    claims = [
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path, _, tree in modules()
        if re.search(r"\bPure\b", ast.get_docstring(tree) or "")
    ]
    assert len(claims) > 10
    assert [each for each in claims if not any(f"{each}.".startswith(f"{name}.") for name in kept)] == []


def test_no_function_holds_two_ideas() -> None:
    long = [
        f"{path}: {node.name}"
        for path, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, Function) and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX
    ]
    assert long == []


def test_names_say_what_a_thing_is() -> None:
    vague = [
        (path, name)
        for path, _, tree in modules()
        for name in names_of(path, tree)
        if words_of(name) & BANNED_WORDS
    ]
    assert vague == []


def test_every_module_says_what_it_holds() -> None:
    assert [path for path, _, tree in modules() if ast.get_docstring(tree) is None] == []


# Put together, so that this file does not name what it looks for.
PLACES = {
    "a machine's path": re.compile("/(?:work" + "/(?:main|shared)|root" + r"/|home/\w+/|opt/wheels)"),
    "a registry's host": re.compile(
        "|".join(["py" + r"pi\.org", "files.python" + "hosted", "crates" + r"\.io", "registry.np" + "mjs"])
    ),
    "an index": re.compile("--(?:extra-)?index" + "-url|--find" + "-links"),
}


@pytest.mark.parametrize("place", PLACES)
def test_no_tracked_file_names(place: str) -> None:
    found = [name for name, text in tracked_texts().items() if PLACES[place].search(text)]
    assert found == []


def test_constraints_are_plain_pins() -> None:
    lines = (ROOT / "requirements" / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []


def test_the_hashes_are_those_of_the_constraints() -> None:
    """hashes.txt pins what constraints.txt pins, and container.txt a part of it; each file of a package has a hash."""
    folder = ROOT / "requirements"
    lines = (folder / "constraints.txt").read_text().splitlines()
    wanted = {normal(name): version for name, _, version in (line.partition("==") for line in lines)}
    hashed, image = pins_of(folder / "hashes.txt"), pins_of(folder / "container.txt")
    assert {name: pin.version for name, pin in hashed.items()} == wanted, "run make hashes"
    assert [name for name, pin in hashed.items() if not pin.hashes] == []
    of_linux = {name: pin for name, pin in image.items() if name in wanted}
    assert {name: pin.version for name, pin in of_linux.items()}.items() <= wanted.items()
    assert image.keys() - wanted.keys() <= {"tzdata", "colorama"}, "these two are for Windows"
    needed = {
        normal(re.split("[ ;<>=!~\\[]", each)[0])
        for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    }
    assert needed <= image.keys()


def test_the_floors_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", done.stdout)
