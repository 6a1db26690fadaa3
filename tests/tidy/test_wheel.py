"""The wheel, as ``make wheel`` makes it and as it would be published, installed alone in an environment of its own: the
commands that need no extra work, and those that need one say which."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from siltstone.model.version import VERSION
from support.processes.ports import free_port
from support.processes.tried import RecordTried

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# A broker writes a topic and ends; the store is then maintained and read without it.
BROKER = """
siltstone serve --store my-store --listener 127.0.0.1:{port} 2>serve.log & broker=$!
for _ in $(seq 100); do siltstone topics -b 127.0.0.1:{port} >/dev/null 2>&1 && break; sleep 0.2; done
seq 1000 | siltstone produce numbers --create -b 127.0.0.1:{port}
siltstone tail numbers -o beginning -c 1000 -b 127.0.0.1:{port} | sort -n >read
kill $broker && wait $broker && seq 1000 | diff - read && echo all of it
"""
WORKS = [
    "siltstone streams --store my-store",
    "siltstone maintain plan --store my-store",
    "siltstone maintain run --runner in-process --store my-store",
    "siltstone check --store my-store",
]
ASKS_FOR = [
    ("siltstone maintain run --store my-store", "siltstone[spark]"),
    ("siltstone sql 'select 1' --store my-store", "siltstone[sql]"),
    ("siltstone serve --store other --bucket s3://bucket/other --listener 127.0.0.1:0", "siltstone[s3]"),
    (
        "siltstone serve --store another --metadata postgresql://u@127.0.0.1/d --listener 127.0.0.1:0",
        "siltstone[postgres]",
    ),
    ("siltstone demo", "siltstone[demo]"),
]


def run(line: str, folder: Path, bin_folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = f"{bin_folder or Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin"
    settings = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=folder, env={**settings, "PATH": path, "HOME": os.environ["HOME"]},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


def built_into(folder: Path) -> Path:
    target = re.search(r"^wheel:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert target
    recipe = target[1].replace("\t@", "").replace("$(BIN)/", "").replace("dist", str(folder))
    done = run(recipe, ROOT)
    assert done.returncode == 0, done
    (built,) = folder.glob("siltstone-*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_into(tmp_path_factory.mktemp("dist"))


@pytest.mark.nightly
def test_ab14_two_builds_have_the_same_bytes_and_the_bill_is_that_of_the_constraints(
    wheel: Path, tmp_path: Path, record_tried: RecordTried
) -> None:
    again = built_into(tmp_path)
    assert again.name == wheel.name and again.read_bytes() == wheel.read_bytes()
    bills = [json.loads((each / "siltstone.cdx.json").read_bytes()) for each in (wheel.parent, tmp_path)]
    assert bills[0] == bills[1]
    pinned = [f"{each['name']}=={each['version']}" for each in bills[0]["components"]]
    assert pinned == (ROOT / "requirements" / "constraints.txt").read_text().split()
    assert len({each["purl"] for each in bills[0]["components"]}) == len(pinned)
    record_tried("builds of the wheel", 2)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_wheel_alone_works_and_says_which_extra_is_missing(
    wheel: Path, tmp_path: Path, record_tried: RecordTried
) -> None:
    made = run(f"{sys.executable} -m venv alone", tmp_path)
    assert made.returncode == 0, made
    bin_folder = tmp_path / "alone" / "bin"
    constraints = ROOT / "requirements" / "constraints.txt"
    done = run(
        f"python -m pip install -q --disable-pip-version-check -c {constraints} {wheel}", tmp_path, bin_folder
    )
    assert done.returncode == 0, done
    port = free_port()
    for line in [BROKER.format(port=port), *WORKS]:
        done = run(line, tmp_path, bin_folder)
        assert done.returncode == 0 and done.stdout and "Traceback" not in done.stderr, f"{line}: {done}"
    for line, extra in ASKS_FOR:
        done = run(line, tmp_path, bin_folder)
        assert done.returncode in (1, 2) and f"pip install '{extra}'" in done.stderr, f"{line}: {done}"
        assert len(done.stderr.splitlines()) <= 3, done.stderr
    record_tried("commands of a wheel without extras", 1 + len(WORKS) + len(ASKS_FOR))


@pytest.mark.nightly
def test_the_wheel_says_what_it_is_and_for_whom(wheel: Path, record_tried: RecordTried) -> None:
    """What a package index shows, read as ``pip`` reads it. An address that does not exist is worse than none."""
    folder = f"siltstone-{PROJECT['version']}.dist-info/"
    found = PathDistribution(zipfile.Path(wheel, folder))  # type: ignore[arg-type]  it needs no more of a path
    metadata = found.metadata
    assert (metadata["Name"], metadata["Version"]) == ("siltstone", VERSION)
    assert metadata["License-Expression"] == "Apache-2.0" and metadata.get_all("License-File") == ["LICENSE"]
    assert metadata["Author"] and metadata["Summary"] == PROJECT["description"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert {"kafka", "pyspark"} <= set(metadata["Keywords"].split(","))
    classifiers = metadata.get_all("Classifier") or []
    assert sorted(classifiers) == sorted(PROJECT["classifiers"])
    assert not [each for each in classifiers if each.startswith("License ::")], "the expression says it"
    assert metadata.get_all("Project-URL") is None and metadata["Home-page"] is None
    assert set(metadata.get_all("Provides-Extra") or []) == set(PROJECT["optional-dependencies"])
    points = {(each.group, each.name) for each in found.entry_points}
    assert points == {("console_scripts", "siltstone"), ("pytest11", "siltstone")}
    record_tried("fields of a wheel's metadata", len(set(metadata)))


@pytest.mark.nightly
def test_the_wheel_holds_the_package_alone(wheel: Path, record_tried: RecordTried) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (metadata,) = (file.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    parts = {name.split("/")[0] for name in names}
    assert parts == {"siltstone", "pyspark_siltstone", f"siltstone-{PROJECT['version']}.dist-info"}
    in_tree = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert in_tree == {name for name in names if name.endswith(".py")}
    assert "siltstone/py.typed" in names
    described = metadata.partition("\n\n")[2]
    assert described.strip() == (ROOT / "README.md").read_text().strip()
    record_tried("files of a wheel", len(names))
