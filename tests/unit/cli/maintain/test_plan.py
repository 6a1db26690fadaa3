from siltstone.cli import runner_options
from siltstone.metadata.commands import CreateTopic
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings
from support.engine.small_store import STREAMS, object_files, object_ids
from support.maintenance.fake_kind import FakeKind, nothing
from support.processes.cli import assert_one_line, run

ONLY_SSO = ("--kind", "sso-compaction")
SPLIT = ("--set", "compaction.split_size_bytes=5KiB")


def test_a_plan_has_reasons_sizes_and_objects_and_writes_nothing(store: NodeSettings, monkeypatch) -> None:
    monkeypatch.setattr(runner_options, "find_spec", lambda _: None)  # no Spark
    before = object_files(store.folder)
    outcome = run("maintain", "plan", *ONLY_SSO, "--store", store.folder)
    assert outcome.status == 0
    assert "kind unit reads writes objects because" in outcome.words
    assert f"sso-compaction objects 31.9 KiB 31.9 KiB {len(before)} → 1" in outcome.words
    assert f"{len(before)} stream set objects will be split and merged by stream" in outcome.words
    assert "1 unit, 31.9 KiB to read, 31.9 KiB to write" in outcome.words
    assert object_files(store.folder) == before
    with open_store(store) as opened:
        assert not opened.metadata.image.jobs and not list(opened.metadata.image.prepared)


def test_the_plan_as_json(store: NodeSettings) -> None:
    kinds = run("maintain", "plan", *ONLY_SSO, "--json", "--store", store.folder).json["kinds"]
    assert [each["kind"] for each in kinds] == ["sso-compaction"]
    (unit,) = kinds[0]["units"]
    assert unit["name"] == "objects" and unit["bytes_read"] > 30_000 and unit["reason"]
    assert kinds[0]["waiting"] == [] and kinds[0]["trouble"] == ""


def test_of_one_kind_the_objects_it_would_make_are_shown_with_their_reasons(store: NodeSettings) -> None:
    before = object_files(store.folder)
    outcome = run("maintain", "plan", *ONLY_SSO, *SPLIT, "--store", store.folder)
    assert outcome.status == 0
    rows = [line for line in outcome.out.splitlines() if line.startswith("SO ")]
    assert len(rows) == STREAMS
    assert all("bytes of one stream, more than 5,120" in row for row in rows)
    assert f"sso-compaction objects 31.9 KiB 31.9 KiB {len(before)} → {STREAMS}" in outcome.words
    assert (
        outcome.words.count(
            "SSO: stream set object, blocks of many streams; SO: stream object, of one stream"
        )
        == 1
    )
    assert object_files(store.folder) == before
    with open_store(store) as opened:
        assert not opened.metadata.image.jobs
    of_all = run("maintain", "plan", *SPLIT, "--store", store.folder)
    assert "sso-compaction objects" in of_all.words and "bytes of one stream" not in of_all.words


def test_these_objects_as_json(store: NodeSettings) -> None:
    before = object_ids(store)
    arguments = (*ONLY_SSO, *SPLIT, "--json", "--store", store.folder)
    (planned,) = run("maintain", "plan", *arguments).json["kinds"]
    (unit,) = planned["units"]
    assert unit["objects_before"] == len(before)
    assert [row["makes"] for row in unit["outputs"]] == ["SO"] * STREAMS
    assert sum(row["size_bytes"] for row in unit["outputs"]) == unit["bytes_read"] == unit["bytes_written"]
    assert sorted({source for row in unit["outputs"] for source in row["sources"]}) == before
    assert unit["detail"]["tasks"] == "1"


def test_kinds_are_chosen_and_stay_in_their_order(store: NodeSettings) -> None:
    arguments = ("--kind", "sso-compaction", "--kind", "sweep", "--json", "--store", store.folder)
    assert [each["kind"] for each in run("maintain", "plan", *arguments).json["kinds"]] == [
        "sweep",
        "sso-compaction",
    ]


def test_a_kind_that_is_none(store: NodeSettings) -> None:
    outcome = run("maintain", "plan", "--kind", "dust", "--store", store.folder)
    assert_one_line(outcome, 2, "'dust'", "'sso-compaction'")


def test_a_topic_that_is_none(store: NodeSettings) -> None:
    outcome = run("maintain", "plan", "--topic", "flights", "--store", store.folder)
    assert_one_line(outcome, 2, "there is no topic flights in this store")


def test_only_a_topic(store: NodeSettings, tidy: FakeKind) -> None:
    tidy.units, tidy.topics = {"flights-0": nothing, "other-0": nothing}, {"flights-0": "flights"}
    with open_store(store) as opened:
        epoch = opened.metadata.image.nodes[0].node_epoch
        opened.metadata.execute(CreateTopic(0, epoch, "flights", "a" * 32, 1))
    words = run("maintain", "plan", "--topic", "flights", "--store", store.folder).words
    assert "tidy flights-0" in words and "other-0" not in words


def test_without_work_it_leads_to_explain(store: NodeSettings, tidy: FakeKind) -> None:
    tidy.units = {}
    words = run("maintain", "plan", "--store", store.folder).words
    assert words == "Nothing to do. (siltstone maintain explain shows why)"


def test_what_is_set_aside_is_told_and_force_plans_it(store: NodeSettings, tidy: FakeKind) -> None:
    tidy.units = {"bad": lambda _: "damaged"}
    run("maintain", "run", "--runner", "in-process", "--store", store.folder)
    words = run("maintain", "plan", "--store", store.folder).words
    assert "tidy: 1 unit set aside after failures (siltstone maintain status shows why" in words
    assert "Nothing to do" not in words
    assert "1 unit is set aside after failures; next try at 20" in words
    assert " UTC: siltstone maintain status" in words
    assert "tidy bad" in run("maintain", "plan", "--force", "--store", store.folder).words


def test_a_store_that_is_none(tmp_path) -> None:
    assert_one_line(run("maintain", "plan", "--store", tmp_path / "none"), 2, "there is no store at")
