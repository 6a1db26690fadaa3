"""tools/mutants: which mutants it makes, and which of them it reports as noticed by no test."""

import subprocess
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

SMALLER = '''"""The smaller of two."""


def smaller(one: int, other: int) -> int:
    """Compares one number with the other."""
    if one < other:
        return one
    return other
'''
WAITING = """from collections.abc import Callable


def wait(is_over: Callable[[], bool]) -> None:
    while not is_over():
        pass
"""
TESTS_OF_SMALLER = """from siltstone.numbers.smaller import smaller


def test_smaller() -> None:
    assert (smaller(1, 2), smaller(4, 3)) == (1, 3)
"""
TESTS_OF_WAITING = """from siltstone.numbers.waiting import wait


def test_wait() -> None:
    wait(lambda: True)
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its pytest is started without plugins: ours would be looked for in the little project. On a busy machine nothing
    is taken for endless but what a test makes so."""
    loader = SourceFileLoader("mutants", str(ROOT / "tools" / "mutants"))
    module = types.ModuleType(loader.name)
    module.__file__ = loader.path
    exec(compile(loader.get_data(loader.path), loader.path, "exec"), module.__dict__)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(module, "SECONDS_MIN", 600)
    return module


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package of two modules, of which ``waiting`` has no test file yet."""
    write(tmp_path, "src/siltstone/__init__.py", "")
    write(tmp_path, "src/siltstone/numbers/__init__.py", "")
    write(tmp_path, "src/siltstone/numbers/smaller.py", SMALLER)
    write(tmp_path, "src/siltstone/numbers/waiting.py", WAITING)
    write(tmp_path, "tests/unit/numbers/test_smaller.py", TESTS_OF_SMALLER)
    return tmp_path


def write(project: Path, name: str, text: str) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def git(project: Path, *words: str) -> None:
    identity = ["-c", "user.name=a test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *identity, *words], cwd=project, check=True, capture_output=True)


def mutated_lines(tool: Any, text: str) -> list[str]:
    """The whole text where it is one line, else the line that is another one."""
    made = [mutant.made_from(text) for mutant in tool.mutants_of(Path("x.py"), text)]
    return [
        next(line for line, old in zip(each.splitlines(), text.splitlines(), strict=False) if line != old)
        for each in made
    ]


@pytest.mark.parametrize(
    ("text", "mutants"),
    [
        ("a <= b", ["(a < b)"]),
        ("a == b != c", ["(a != b != c)", "(a == b == c)"]),
        ("a and b in c", ["(a or b in c)", "(b in c)", "(a)", "a and (b not in c)"]),
        ("not a", ["(a)"]),
        ("a + b", ["(a - b)"]),
        ("a -= b", ["a += b"]),
        ("a = 7", ["a = 8", "a = 6"]),
        ("a = True", ["a = False"]),
        ("SECOND_MS = 1000", ["SECOND_MS = 1001", "SECOND_MS = 999"]),
        (
            "LEASE_MS = 2 * MINUTE_MS",
            ["LEASE_MS = (2 // MINUTE_MS)", "LEASE_MS = 3 * MINUTE_MS", "LEASE_MS = 1 * MINUTE_MS"],
        ),
        ("READ_BYTES = 64 * KIB", ["READ_BYTES = (64 // KIB)"]),
        ("MIB = 1024 * KIB", ["MIB = (1024 // KIB)", "MIB = 1025 * KIB", "MIB = 1023 * KIB"]),
        (
            "f(2 * size, KIB * 3)",
            [
                "pass",
                "f((2 // size), KIB * 3)",
                "f(3 * size, KIB * 3)",
                "f(1 * size, KIB * 3)",
                "f(2 * size, (KIB // 3))",
                "f(2 * size, KIB * 4)",
                "f(2 * size, KIB * 2)",
            ],
        ),
        ("a = b_ms / 1000", ["a = (b_ms * 1000)"]),
        ("a = b_ns // 1_000_000", ["a = (b_ns * 1000000)"]),
        ("a = b / 2", ["a = (b * 2)", "a = b / 3", "a = b / 1"]),
        ("a = b / 'name'", []),
        ("a = b > 1000", ["a = (b >= 1000)", "a = b > 1001", "a = b > 999"]),
        ("f(A_MS, 5)", ["pass", "f(A_MS, 6)", "f(A_MS, 4)"]),
        ("deadline_ms = 5", ["deadline_ms = 6", "deadline_ms = 4"]),
        ("a if b else c", ["a if (not b) else c"]),
        ("raise a", ["pass"]),
        ("f(a)", ["pass"]),
        ("async def f():\n    await a()", ["    pass"]),
        ("def f():\n    return a", ["    return None"]),
        ("é = 'ü' if b else c", ["é = 'ü' if (not b) else c"]),
    ],
)
def test_one_change_a_mutant(tool: Any, text: str, mutants: list[str]) -> None:
    assert mutated_lines(tool, text) == mutants


@pytest.mark.parametrize(
    "text",
    [
        '"""A text of 3 words."""',
        "log.warning('%d of %d', 3, a + b)",
        "assert a < b, 3",
        "a: Literal[3]",
        "f'{a + 3}'",
        "def f():\n    return None",
        "class A(B, frozen=True): ...",
        "def __repr__(self):\n    return a + b",
        "LIMIT_BYTES_MAX = 3",
        "ROWS_PER_TURN = 50",
        "READS_SIDE_BY_SIDE = 8",
        "CONNECT_TIME_LIMIT_MS = 5_000",
        "LOOK_AGAIN_SECONDS = 5",
    ],
)
def test_what_no_test_can_notice_is_left_alone(tool: Any, text: str) -> None:
    assert mutated_lines(tool, text) == []


def test_what_an_exception_says_is_left_alone(tool: Any) -> None:
    assert mutated_lines(tool, "raise TooLarge(a + 3)") == ["pass"]


def test_the_mutant_that_no_test_notices_is_listed(
    tool: Any, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two equal numbers either is the smaller one: ``<=`` does the same."""
    tool.main([], project)
    assert capsys.readouterr().out.splitlines() == [
        "src/siltstone/numbers/smaller.py:6: not seen by tests/unit/numbers/test_smaller.py",
        "-    if one < other:",
        "+    if (one <= other):",
        "seen 2 of 3",
    ]
    assert (project / "src/siltstone/numbers/smaller.py").read_text() == SMALLER


def test_what_the_module_s_own_tests_do_not_notice_those_of_its_package_may(
    tool: Any, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        project,
        "tests/unit/numbers/test_smaller.py",
        TESTS_OF_SMALLER.replace("(4, 3)", "(2, 4)").replace("3)", "2)"),
    )
    tool.main([], project)
    assert capsys.readouterr().out.splitlines()[-1] == "seen 1 of 3"
    write(project, "tests/property/test_numbers.py", TESTS_OF_SMALLER)
    write(
        project, "tests/tested_by.toml", '[modules]\n[also]\nnumbers = ["tests/property/test_numbers.py"]\n'
    )
    tool.main([], project)
    out = capsys.readouterr().out.splitlines()
    assert (
        "smaller.py:6: not seen by tests/unit/numbers/test_smaller.py tests/property/test_numbers.py"
        in out[0]
    )
    assert out[-1] == "seen 2 of 3"


def test_a_mutant_whose_tests_do_not_end_is_seen(
    tool: Any, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its ``not`` the loop continues for ever."""
    monkeypatch.setattr(tool, "SECONDS_MIN", 1)
    write(project, "tests/unit/numbers/test_waiting.py", TESTS_OF_WAITING)
    tool.main(["src/siltstone/numbers/waiting.py"], project)
    assert capsys.readouterr().out == "seen 1 of 1\n"


def test_only_modules_that_were_changed_are_mutated(
    tool: Any, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(project, "init")
    git(project, "add", "--all")
    git(project, "commit", "--message", "first")
    write(project, "src/siltstone/numbers/waiting.py", f"{WAITING}\n\nNOBODY = None\n")
    tool.main(["--since", "HEAD"], project)
    assert capsys.readouterr().out.splitlines() == [
        "src/siltstone/numbers/waiting.py: no test file of its own",
        "seen 0 of 0",
    ]


def test_a_sample_is_drawn_by_its_seed(tool: Any, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, "tests/unit/numbers/test_smaller.py", "def test_nothing():\n    pass\n")
    outs = []
    for seed in ("1", "1", "5"):
        tool.main(["--sample", "1", "--seed", seed], project)
        outs.append(capsys.readouterr().out)
    assert outs[0] == outs[1]
    assert len(set(outs)) > 1
    assert all(out.endswith("seen 0 of 1\n") for out in outs)


def test_tests_that_fail_without_a_mutant_tell_nothing(
    tool: Any, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, "tests/unit/numbers/test_smaller.py", "def test_smaller():\n    raise ValueError\n")
    tool.main(["src/siltstone/numbers/smaller.py"], project)
    assert capsys.readouterr().out.splitlines() == [
        "src/siltstone/numbers/smaller.py: its tests fail without a mutant",
        "seen 0 of 0",
    ]


def test_a_test_belongs_to_the_module_with_the_longest_name(tool: Any, project: Path) -> None:
    for name in ("check", "bucket_check"):
        write(project, f"src/siltstone/numbers/{name}.py", "")
        write(project, f"tests/unit/numbers/test_{name}.py", "")
    write(project, "tests/unit/numbers/test_check_twice.py", "")
    write(project, "tests/unit/numbers/test_first_check.py", "")
    folder, tests = Path("src/siltstone/numbers"), "tests/unit/numbers"
    found = tool.own_tests(project)
    assert found[folder / "bucket_check.py"] == [f"{tests}/test_bucket_check.py"]
    assert found[folder / "check.py"] == [
        f"{tests}/test_check.py",
        f"{tests}/test_check_twice.py",
        f"{tests}/test_first_check.py",
    ]
