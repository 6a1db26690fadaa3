"""``siltstone upgrade`` on a store that no broker has open."""

from siltstone.metadata.commands import RegisterNode
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings
from support.processes.cli import Outcome, run


def called(store: NodeSettings, *words: str) -> Outcome:
    return run("upgrade", *words, "--store", store.folder)


def version_of(store: NodeSettings) -> int:
    with open_store(store) as opened:
        return opened.metadata.image.version


def test_op06_a_dry_run_says_what_would_happen_and_writes_nothing(store: NodeSettings) -> None:
    before = version_of(store)
    said = called(store, "--dry-run")
    assert said.words.startswith(
        "The store would be raised from level 1 to level 2: 2: the store names its level"
    )
    assert "Back up first" in said.words
    assert called(store, "--dry-run", "--json").json["upgrade"] == {"before": 1, "level": 2, "dry_run": True}
    assert version_of(store) == before
    assert called(store).words.startswith("The store is raised from level 1 to level 2")
    assert version_of(store) == before + 1
    assert called(store).out == called(store, "--dry-run").out == "The store has level 2 already.\n"
    assert version_of(store) == before + 1


def test_op06_what_is_refused_names_the_node_or_the_level(store: NodeSettings) -> None:
    with open_store(store) as opened:
        opened.metadata.execute(RegisterNode(7, "life", "wal-7"))
    for words in ((), ("--dry-run",)):
        refused = called(store, *words)
        assert refused.status == 2 and "node 7 runs a version before levels and knows level 1" in refused.err
    assert called(store, "--to", "1").out == "The store has level 1 already.\n"
    unknown = called(store, "--to", "9")
    assert (unknown.status, "knows levels 1 to 2, and not 9" in unknown.err) == (2, True)
