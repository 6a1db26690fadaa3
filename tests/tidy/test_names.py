"""One name, one thing: a public class name stands once in the source."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "siltstone"

ALLOWED = {
    "ConfigSource": "Kafka's enumeration, for what we answer and for what the client reads",
    "Connection": "the client's side, and the broker's",
    "Outcome": "of a unit of maintenance, and of a transaction",
    "Phase": "of a member of a group, and of an HTTP request",
}
"""The names that two modules share, each with the reason. The list may only get shorter."""

ALLOWED_MAX = 4


def shared_names(source: Path) -> dict[str, list[str]]:
    """Public class names → the modules that define them, of those that are in several. Classes of Kafka's messages have
    Kafka's names, which the broker and the client use for the same things."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        module = str(path.relative_to(source))
        if module.startswith("kafka_protocol/messages/"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_a_public_class_name_stands_once() -> None:
    assert {name: modules for name, modules in shared_names(SOURCE).items() if name not in ALLOWED} == {}


def test_the_list_of_shared_names_only_gets_shorter() -> None:
    assert set(ALLOWED) == set(shared_names(SOURCE)) and len(ALLOWED) <= ALLOWED_MAX


def test_a_second_class_of_a_name_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Round: ...\nclass _Own: ...\n")
    (tmp_path / "b.py").write_text("class Round: ...\nclass _Own: ...\n")
    assert shared_names(tmp_path) == {"Round": ["a.py", "b.py"]}
