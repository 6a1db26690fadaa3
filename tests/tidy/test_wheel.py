"""Wheel and sdist, as ``make wheel`` makes them and as they would be published, installed alone in an environment of
their own, of each Python that the machine has: the commands that need no extra work, and those that need one say which.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from siltstone.model.version import VERSION
from support.pages.pins import pins_of
from support.processes.ports import free_port
from support.processes.tried import RecordTried

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements"
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
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
    (
        "siltstone serve --store pushes --set admin.otlp_endpoint=http://127.0.0.1:1/v1/metrics "
        "--listener 127.0.0.1:0",
        "siltstone[otlp]",
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
    recipe = target[1].replace("\t@", "").replace("$(BIN)/", "").replace(" dist", f" {folder}")
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
    pinned = {name: pin.version for name, pin in pins_of(REQUIREMENTS / "hashes.txt").items()}
    listed = {each["name"]: each["version"] for each in bills[0]["components"]}
    assert bills[0]["bomFormat"] == "CycloneDX" and listed == pinned
    assert all(each["externalReferences"][0]["hashes"] for each in bills[0]["components"])
    described = bills[0]["metadata"]["component"]
    assert (described["name"], described["version"]) == ("siltstone", VERSION)
    record_tried("builds of the wheel", 2)


def python_of(version: str) -> str:
    """The first that runs: of this environment, of the path, of pyenv."""
    here = [sys.executable] if sys.version_info[:2] == tuple(map(int, version.split("."))) else []
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for candidate in (*here, shutil.which(f"python{version}"), *of_pyenv):
        if (
            candidate
            and subprocess.run([candidate, "--version"], capture_output=True, check=False).returncode == 0
        ):
            return str(candidate)
    pytest.skip(f"this machine has no Python {version}")


def made_environment(folder: Path, version: str = "3.11") -> Path:
    """Returns the folder of the programs of a new environment."""
    made = run(f"{python_of(version)} -m venv alone", folder)
    assert made.returncode == 0, made
    return folder / "alone" / "bin"


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_is_published_works_alone_and_says_which_extra_is_missing(
    kind: str, version: str, wheel: Path, tmp_path: Path, record_tried: RecordTried
) -> None:
    bin_folder = made_environment(tmp_path, version)
    file = wheel if kind == "wheel" else wheel.parent / f"siltstone-{VERSION}.tar.gz"
    constraints = REQUIREMENTS / "constraints.txt"
    done = run(
        f"python -m pip install -q --disable-pip-version-check -c {constraints} {file}", tmp_path, bin_folder
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
    record_tried("commands without extras", 1 + len(WORKS) + len(ASKS_FOR))


@pytest.mark.nightly
def test_the_sdist_makes_the_same_wheel(wheel: Path, tmp_path: Path, record_tried: RecordTried) -> None:
    """So the sdist holds all that the wheel needs."""
    unpacked = run(f"tar -xzf {wheel.parent}/siltstone-{VERSION}.tar.gz", tmp_path)
    assert unpacked.returncode == 0, unpacked
    done = run(f"hatchling build -t wheel -d {tmp_path}/again", tmp_path / f"siltstone-{VERSION}")
    assert done.returncode == 0, done
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(tmp_path / "again" / wheel.name) as other:
        assert one.namelist() == other.namelist()
        assert [each for each in one.namelist() if one.read(each) != other.read(each)] == []
    record_tried("wheels of an sdist", 1)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_packages_of_the_image_are_installed_by_their_hashes_alone(
    wheel: Path, tmp_path: Path, record_tried: RecordTried
) -> None:
    """As the Containerfile does it; and a hash that does not fit is refused."""
    bin_folder = made_environment(tmp_path)
    install = "python -m pip install -q --disable-pip-version-check --no-deps"
    done = run(
        f"{install} --require-hashes -r {REQUIREMENTS}/container.txt && {install} {wheel}",
        tmp_path,
        bin_folder,
    )
    assert done.returncode == 0, done
    checked = run("python -m pip check && siltstone --help", tmp_path, bin_folder)
    assert checked.returncode == 0, checked
    pins = pins_of(REQUIREMENTS / "container.txt")
    wrong = tmp_path / "wrong.txt"
    wrong.write_text(f"click=={pins['click'].version} --hash=sha256:{64 * '0'}\n")
    again = run(f"{install} --force-reinstall --require-hashes -r {wrong}", tmp_path, bin_folder)
    assert again.returncode != 0 and "DO NOT MATCH" in again.stderr, again
    record_tried("packages installed by their hashes", len(pins))


@pytest.mark.nightly
@pytest.mark.parametrize("version", PYTHONS)
def test_every_python_has_wheels_of_all_that_is_needed(
    version: str, tmp_path: Path, record_tried: RecordTried
) -> None:
    """Also of a Python that this machine has not: what is needed is resolved for it, and from wheels alone."""
    done = run(
        f"uv pip compile --quiet --no-build --no-annotate --no-header --python-version {version} "
        f"--python-platform x86_64-manylinux_2_28 -c {REQUIREMENTS}/constraints.txt {ROOT}/pyproject.toml "
        "--extra s3 --extra postgres --extra tls --extra oauth --extra otlp --extra sql --extra tables",
        tmp_path,
    )
    assert done.returncode == 0, done
    assert "numpy==" in done.stdout
    assert ("backports-zstd==" in done.stdout) == (version != "3.14"), "the markers are those of this Python"
    record_tried("packages with wheels", len(done.stdout.split()))


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
