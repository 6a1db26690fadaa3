from siltstone.metadata.commands import PutKey
from siltstone.metadata.sinks import SINK_PREFIX, SinkBatch, SinkState, SinkTarget, encode_sink, sink_of
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings
from support.processes.cli import assert_one_line, run


def put(store: NodeSettings, name: str, state: SinkState, query: str = "") -> None:
    batch = SinkBatch(
        "relay",
        query,
        7,
        state,
        "driver",
        3,
        "staging/x/7/m",
        5,
        1_700_000_000_000,
        "value binary",
        (SinkTarget(1, 2, 3),),
    )
    with open_store(store) as opened:
        opened.metadata.execute(PutKey(f"{SINK_PREFIX}{name}", encode_sink(batch)))


def state_of(store: NodeSettings, name: str) -> SinkState | None:
    with open_store(store) as opened:
        found = sink_of(opened.metadata.image, name)
    return None if found is None else found.state


def test_sinks_are_listed_for_people_and_as_json(store: NodeSettings) -> None:
    assert run("sinks", "--store", store.folder).words == "There are no sinks."
    put(store, "loads", SinkState.DONE)
    put(store, "orders", SinkState.INTENT, "5b0f")
    listed = run("sinks", "list", "--store", store.folder).words
    assert "loads - 7 done 2023-11-14 22:13:20 1" in listed and "orders 5b0f 7 intent" in listed
    rows = run("sinks", "--json", "--store", store.folder).json["sinks"]
    assert [(row["sink"], row["state"], row["columns"]) for row in rows] == [
        ("loads", "done", "value binary"),
        ("orders", "intent", "value binary"),
    ]


def test_an_unfinished_batch_is_given_up_before_its_sink_is_forgotten(store: NodeSettings) -> None:
    put(store, "orders", SinkState.INTENT)
    assert_one_line(
        run("sinks", "forget", "orders", "--store", store.folder), 2, "siltstone sinks abandon orders"
    )
    assert state_of(store, "orders") is SinkState.INTENT
    assert (
        run("sinks", "abandon", "orders", "--store", store.folder).words
        == "Batch 7 of sink orders was given up."
    )
    assert state_of(store, "orders") is SinkState.ABANDONED
    assert "there is nothing to give up" in run("sinks", "abandon", "orders", "--store", store.folder).words
    assert run("sinks", "forget", "orders", "--store", store.folder).words == "Sink orders was forgotten."
    assert state_of(store, "orders") is None


def test_a_sink_that_is_not_there_is_named(store: NodeSettings) -> None:
    for command in ("forget", "abandon"):
        assert_one_line(
            run("sinks", command, "absent", "--store", store.folder), 2, "there is no sink absent"
        )
