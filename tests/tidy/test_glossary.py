"""docs/glossary.md has every word of the source: its modules exist, no term is listed twice, and the name of every
public class consists of its terms and a few plain words that need no explanation."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from support.pages.documents import ROOT

pytestmark = pytest.mark.xdist_group("source")  # which one worker reads, once

SOURCE = ROOT / "src" / "siltstone"
PAGE = ROOT / "docs" / "glossary.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| `([^`|]+)` \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text())
CODE_MAP = (ROOT / "ARCHITECTURE.md").read_text()
LIVES = "\n".join(page.read_text() for page in sorted((ROOT / "docs" / "lives").glob("*.md")))


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KINDS_OF_VALUE = words(
    """
    action address anchor body choice column content context count effect environment failure fate figure heap id
    interval knowledge location mismatch network operation order output overview phase piece port process
    production reason reference report resource result role row sentence severity space statistics structure summary
    synonym tally thread type verification
    """
)
"""Nouns that say what sort of value a class is: BacklogStatistics, RunReport."""

VERBS = words(
    """
    add admit advance alter ask assign bind build change configure encode end estimate filter
    follow hold judge keep learn lie look maintain pass put raise rebuild remove reset resolve
    rewrite see send speak take walk want withdraw
    """
)
"""Verbs that say what is done with the noun beside them, in any form: FoundOffset, LogFormatter."""

QUALIFIERS = words(
    """
    back before done in inline last late manual new nullable of out outgoing past patience robin second
    sequential since under unknown unplanned way
    """
)

MADE_BY_OTHERS = frozenset({"avro", "gzip", "java", "json", "kafka", "postgres", "protobuf", "s3", "sqlite"})

PLAIN = KINDS_OF_VALUE | VERBS | QUALIFIERS | MADE_BY_OTHERS

IRREGULAR = {
    "added": "add", "admission": "admit", "copied": "copy", "expiry": "expire", "ids": "id", "lies": "lie",
    "forgotten": "forget", "found": "find", "given": "give", "held": "hold", "kept": "keep", "left": "leave",
    "rewritten": "rewrite", "seen": "see", "sent": "send", "spoken": "speak", "taken": "take", "told": "tell",
    "written": "write",
}  # fmt: skip


# -- words --------------------------------------------------------------------------------------------------


def root_of(word: str) -> str:
    """Returns the part of a word by which rolled, rolls and roll are one."""
    word = IRREGULAR.get(word.lower(), word.lower())
    for plural, singular in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if word.endswith(plural) and not (plural == "s" and (word.endswith("ss") or len(word) < 4)):
            word = word.removesuffix(plural) + singular
            break
    for endings in (("ing", "ed"), ("ion", "er", "or")):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word.removesuffix(ending)
                word = word[:-1] if word[-1] == word[-2] and word[-1] not in "lsz" else word
                break
    return word.removesuffix("e") if len(word) > 3 else word


def words_of_class(name: str) -> list[str]:
    return re.findall(r"[A-Z]?[a-z0-9]+|[A-Z][A-Z0-9]*(?![a-z])", name)


def roots(words: Iterable[str]) -> frozenset[str]:
    return frozenset(map(root_of, words))


@cache
def explained() -> frozenset[str]:
    return roots(word for term, _, _ in ROWS for word in re.findall(r"[A-Za-z0-9]+", term))


def unexplained(name: str) -> list[str]:
    known = explained() | roots(PLAIN)
    return [word for word in words_of_class(name) if root_of(word) not in known]


# -- classes ------------------------------------------------------------------------------------------------


def classes_of(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Yields the classes of a module, each with the names of its bases."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
            yield node.name, {ast.unparse(base).rpartition(".")[2] for base in bases}


@cache
def all_classes() -> dict[str, frozenset[str]]:
    bases: defaultdict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        if (SOURCE / "kafka_protocol" / "messages") not in path.parents:
            for name, of_class in classes_of(ast.parse(path.read_text())):
                bases[name] |= of_class
    return {name: frozenset(of_class) for name, of_class in bases.items()}


@cache
def errors() -> frozenset[str]:
    """Returns SiltstoneError, other exceptions, and all their subclasses."""
    found = {"Exception", "BaseException", "SiltstoneError", "ClickException", "RuntimeError", "ValueError"}
    while more := {name for name, bases in all_classes().items() if bases & found} - found:
        found |= more
    return frozenset(found)


def public_classes() -> list[str]:
    return sorted(name for name in all_classes() if not name.startswith("_") and name not in errors())


# -- the page -----------------------------------------------------------------------------------------------


def test_every_row_of_the_page_is_read() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    headings = PAGE.read_text().count("| term | meaning | module |")
    assert headings >= 9
    assert len(ROWS) == len(rows) - headings >= 90


def test_no_term_stands_twice() -> None:
    terms = [re.sub(r" \(.*\)", "", term).casefold() for term, _, _ in ROWS]
    assert [term for term in terms if terms.count(term) > 1] == []


@pytest.mark.parametrize(("term", "meaning", "module"), ROWS, ids=[term for term, _, _ in ROWS])
def test_every_term_is_one_sentence_and_its_module_exists(term: str, meaning: str, module: str) -> None:
    assert (SOURCE / module).is_file()
    assert meaning.endswith(".") and ". " not in meaning
    assert term.casefold() not in {meaning.casefold().rstrip(".")}


def test_terms_stand_under_the_floor_of_their_package() -> None:
    floors = {
        package: int(floor) for floor, package in re.findall(r"^\| (\d+) \| `(\w+)`", CODE_MAP, re.MULTILINE)
    }
    sections = PAGE.read_text().split("\n## Floor ")[1:]
    numbers = [int(section.partition(":")[0]) for section in sections]
    assert numbers == sorted(numbers)
    misplaced = [
        (term, module)
        for number, section in zip(numbers, sections, strict=True)
        for term, _, module in ROW.findall(section)
        if floors[module.partition("/")[0]] != number
    ]
    assert misplaced == []


HOUSE_WORDS = """
stream, record batch, offset range, stream set object, stream object, block, index, footer, write-ahead log, tail cache,
trim, commit, epoch, fence, image, metadata record, plan, job, attempt, iteration, unit, task input, segment, tombstone,
live ratio, grace period, run, driver, round, extent, merge group, group, known group, field group, log file, level
"""


@pytest.mark.parametrize("word", HOUSE_WORDS.replace("\n", " ").strip().split(", "))
def test_each_word_of_the_house_is_a_term(word: str) -> None:
    terms = {part for term, _, _ in ROWS for part in re.sub(r" \(.*\)", "", term).split(", ")}
    assert word.strip() in terms


def test_words_in_italics_are_explained() -> None:
    """ARCHITECTURE.md says that its words in italics are explained there; the same holds for the lives."""
    text = re.sub(r"```.*?```", "", CODE_MAP + LIVES, flags=re.DOTALL)
    italics = re.findall(r"(?<![*`\w])\*([a-z][\w -]*)\*(?!\*)", text)
    assert len(set(italics)) > 25
    assert [each for each in italics if roots(re.findall(r"\w+", each)) - explained()] == []


# -- the source ---------------------------------------------------------------------------------------------


def test_there_are_classes_to_check() -> None:
    assert len(public_classes()) > 400
    assert not {"Unavailable", "DamagedBlock", "ExtraMissing"} & set(public_classes())


def test_every_class_is_named_in_words_of_the_glossary() -> None:
    found = {name: words for name in public_classes() if (words := unexplained(name))}
    assert found == {}, "explain the words in docs/glossary.md, or name the class in words that are there"


def test_the_plain_words_are_few_used_and_not_explained_twice() -> None:
    assert len(PLAIN) <= 130
    used = roots(word for name in public_classes() for word in words_of_class(name))
    assert sorted(word for word in PLAIN if root_of(word) not in used) == []
    assert sorted(word for word in PLAIN if root_of(word) in explained()) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("StreamShuffler", ["Shuffler"]),
        ("QuorumVoters", ["Quorum", "Voters"]),
        ("CompactionManager", ["Manager"]),
        ("WALZapper", ["Zapper"]),
        ("StreamSetObjectCompaction", []),
        ("TopicsRolledStatistics", []),
    ],
)
def test_an_invented_word_would_be_found(name: str, words: list[str]) -> None:
    assert unexplained(name) == words


def test_an_invented_class_would_be_found() -> None:
    text = (
        "class _Own: ...\nclass StreamShuffler(Generic[T]): ...\nclass Torn(model.errors.CorruptData): ...\n"
    )
    found = dict(classes_of(ast.parse(text)))
    assert found == {"_Own": set(), "StreamShuffler": {"Generic"}, "Torn": {"CorruptData"}}
    assert [
        name
        for name, bases in found.items()
        if not name.startswith("_") and not bases & errors() and unexplained(name)
    ] == ["StreamShuffler"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("rolled", "roll"), ("Trimmed", "trim"), ("entries", "entry"), ("boxes", "box"), ("classes", "class"),
     ("writer", "written"), ("closed", "closing"), ("compaction", "compacted"), ("gather", "gathered")],
)  # fmt: skip
def test_forms_of_a_word_are_one(one: str, other: str) -> None:
    assert root_of(one) == root_of(other)
