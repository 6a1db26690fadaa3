"""tests/unit mirrors src/siltstone in both directions: each of its files names a module, and each module has a file
of its own there or says in tests/tested_by.toml which tests see it."""

import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "siltstone"
UNIT = ROOT / "tests" / "unit"
TABLE = tomllib.loads((ROOT / "tests" / "tested_by.toml").read_text())
TESTED_BY, TESTED_ALSO_BY = TABLE["modules"], TABLE.get("also", {})


def module_of(test: Path, modules: set[Path]) -> Path | None:
    """The module that a test file, relative to tests/unit, is named after. One aspect of module y has y at either end
    of its name: test_engine_close.py, test_read_settings.py; of several the longest name wins."""
    words = test.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:end]) for end in range(len(words), 0, -1)]
    names += ["_".join(words[start:]) for start in range(1, len(words))]
    named = (test.parent / f"{name}.py" for name in names)
    return max((path for path in named if path in modules), key=lambda path: len(path.stem), default=None)


def names_a_package(test: Path) -> bool:
    words = test.stem.removeprefix("test_").split("_")
    return any((SOURCE / test.parent / "_".join(words[:end])).is_dir() for end in range(1, len(words) + 1))


@cache
def modules() -> frozenset[Path]:
    """But those of messages, which a tool writes."""
    found = (path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    return frozenset(path for path in found if "messages" not in path.parts)


@cache
def unit_tests() -> tuple[Path, ...]:
    return tuple(path.relative_to(UNIT) for path in sorted(UNIT.rglob("test_*.py")))


def test_every_unit_test_names_a_module() -> None:
    every = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.py")}
    assert len(unit_tests()) > 200
    strays = [
        str(test) for test in unit_tests() if module_of(test, every) is None and not names_a_package(test)
    ]
    assert strays == []


def test_every_module_has_a_test_or_says_who_tests_it() -> None:
    own = {module_of(test, set(modules())) for test in unit_tests()}
    without = {str(path) for path in modules() if path not in own}
    assert without - TESTED_BY.keys() == set(), (
        "write tests/unit/…/test_….py, or a line in tests/tested_by.toml"
    )
    assert TESTED_BY.keys() - without == set(), "these have a test file of their own, or are gone"


def test_the_tests_named_exist() -> None:
    of_modules = [paths for paths in TESTED_BY.values() if paths != "values"]
    named = {path for paths in (*of_modules, *TESTED_ALSO_BY.values()) for path in paths}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_modules_that_are_tested_elsewhere_too_exist_and_have_tests_of_their_own() -> None:
    packages = {str(folder) for path in modules() for folder in path.parents}
    assert TESTED_ALSO_BY.keys() <= ({str(path) for path in modules()} - TESTED_BY.keys()) | packages


def test_a_stray_would_be_found() -> None:
    few = {Path("x/engine.py"), Path("x/engine_close.py")}
    assert module_of(Path("x/test_engine_close_late.py"), few) == Path("x/engine_close.py")
    assert module_of(Path("x/test_read_engine.py"), few) == Path("x/engine.py")
    assert module_of(Path("x/test_nothing.py"), few) is None
    both = {Path("x/broker.py"), Path("x/settings.py")}
    assert module_of(Path("x/test_broker_settings.py"), both) == Path("x/settings.py")


def test_every_file_of_tests_has_a_test() -> None:
    """A merge once left nothing but the head of a file, and all its tests were gone."""
    empty = [
        path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "def test_" not in path.read_text()
    ]
    assert empty == []
