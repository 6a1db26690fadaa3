"""A limit that a test makes small is an argument. A test replaces a constant only where the code that reads it is deep
in a whole broker, a run of maintenance or a command; the number of these places may only fall."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]

REPLACED_MAX = 76
"""Lower it with every constant that becomes an argument."""


def replaced_constants(text: str) -> list[str]:
    """The constants that the test replaces by ``setattr(module, "NAME", …)`` or ``setattr("path.of.NAME", …)``."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr != "setattr":
            continue
        names = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
        name = next((each for each in names if isinstance(each, str)), "").rpartition(".")[2]
        if name.strip("_").replace("_", "").isupper():
            found.append(name)
    return found


def test_constants_that_tests_replace_only_get_fewer() -> None:
    places = [
        f"{path.relative_to(TESTS)}: {name}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for name in replaced_constants(path.read_text())
    ]
    assert len(places) <= REPLACED_MAX, "make the constant an argument: " + ", ".join(places)


def test_both_ways_to_replace_one_would_be_found() -> None:
    text = """
monkeypatch.setattr(planning, "UNITS_MAX", 1)
patch.setattr("siltstone.scanning.planning._ROWS", 1)
monkeypatch.setattr(planning, "plan_scan", None)
monkeypatch.setattr(made.target, "put", None)
"""
    assert replaced_constants(text) == ["UNITS_MAX", "_ROWS"]
