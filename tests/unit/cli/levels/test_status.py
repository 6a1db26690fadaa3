"""``siltstone status`` on one screen, and as JSON."""

from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.features import put_own_level
from siltstone.metadata.levels import STORE_LEVEL, put_own_program
from siltstone.model.version import VERSION
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings
from support.processes.cli import Outcome, run


def called(store: NodeSettings, *words: str) -> Outcome:
    return run("status", *words, "--store", store.folder)


def test_op07_one_screen_says_level_nodes_and_the_way_back(store: NodeSettings) -> None:
    with open_store(store) as opened:
        for node_id in (4, 5):
            opened.metadata.execute(RegisterNode(node_id, "life", f"wal-{node_id}"))
        life = opened.metadata.image.nodes[4].life
        opened.metadata.execute_all(
            [put_own_program(life, 1_700_000_000_000), put_own_level(life, STORE_LEVEL, 2)]
        )
    said = called(store)
    assert said.status == 0
    assert f"The store has level 1, which was never raised. This program is siltstone {VERSION}" in said.words
    assert f"4 live {VERSION} 2 2023-11-14 22:13:20" in said.words
    assert "5 live before levels 1 -" in said.words
    assert (
        "open to every version that knows level 1, until siltstone upgrade raises it to 2: no way back then"
        in said.words
    )
    assert f"Level 2 waits for node 5: install siltstone {VERSION} there and restart." in said.words
    assert len(said.out.splitlines()) <= 20
    told = called(store, "--json").json["status"]
    assert (told["level"], told["newest_level"], told["raised_ms"]) == (1, 2, None)
    assert [(node["node_id"], node["version"], node["level"]) for node in told["nodes"]] == [
        (4, VERSION, 2),
        (5, None, 1),
    ]
    assert told["way_back"] == {"level": 1, "program": "0.1.0", "until_level": 2, "metadata_version": None}


def test_op07_after_the_upgrade_it_says_what_is_left_of_the_way_back(store: NodeSettings) -> None:
    assert "siltstone upgrade raises the level to 2: nothing waits" in called(store).words
    version = run("upgrade", "--store", store.folder, "--json").json["upgrade"]
    assert version == {"before": 1, "level": 2, "dry_run": False}
    said = called(store).words
    assert f"level 2, to which siltstone {VERSION} raised it on 2" in said
    assert "a backup of version" in said and "This store has no nodes yet" in said
    with open_store(store) as opened:
        raised = opened.metadata.image.level.version
    assert called(store, "--json").json["status"]["way_back"]["metadata_version"] == raised - 1
