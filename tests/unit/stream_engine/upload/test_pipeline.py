"""T15 and the rest of the pipeline's life, with every command and every put held until the test lets it go."""

import asyncio

import pytest

from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.commands import (
    CommitUpload,
    FenceNode,
    ResumeNode,
)
from siltstone.metadata.refusals import NodeEpochExpired
from siltstone.object_store.port import ObjectTruncated, StoreDenied, StoreTransient
from siltstone.stream_engine.upload.outage import (
    RETRY_INTERVAL_MS_MAX,
    RETRY_INTERVAL_MS_MIN,
)
from support.engine.engine_world import settled
from support.engine.held_pipeline import NODE, Pipeline, run


def test_t15_upload_pipeline_order_of_prepares():
    async def scenario():
        at = Pipeline()
        at.gate.hold("prepare 1")
        at.pipeline.submit(at.block(0, 100))
        at.pipeline.submit(at.block(1, 200))
        await settled()
        assert at.events == ["prepare 1"]
        await at.gate.release("prepare 1")
        assert at.events.index("prepare 1 done") < at.events.index("prepare 2")
        await at.pipeline.drain()
        assert at.end_of() == 2

    run(scenario)


def test_t15_upload_pipeline_order_of_commits_when_the_second_upload_ends_first():
    async def scenario():
        at = Pipeline()
        at.gate.hold("put 1", "commit 1")
        at.pipeline.submit(at.block(0, 100))
        at.pipeline.submit(at.block(1, 200))
        await settled()
        assert "put 2" in at.events, "uploads run side by side"
        assert at.store.list().__next__().key, "the second is uploaded"
        assert not any(event.startswith("commit") for event in at.events)
        await at.gate.release("put 1")
        assert at.events[-1] == "commit 1"
        assert at.end_of() == 0
        await at.gate.release("commit 1")
        await at.pipeline.drain()
        commits = [event for event in at.events if event.startswith("commit")]
        assert commits == ["commit 1", "commit 1 done", "commit 2", "commit 2 done"]
        assert at.end_of() == 2

    run(scenario)


def test_t15_upload_pipeline_order_of_trims():
    async def scenario():
        at = Pipeline()
        at.gate.hold("commit 1", "trim 100")
        at.pipeline.submit(at.block(0, 100))
        at.pipeline.submit(at.block(1, 200))
        await settled()
        assert not any(event.startswith("trim") for event in at.events), (
            "nothing is trimmed before its commit"
        )
        await at.gate.release("commit 1")
        assert at.events[-1] == "trim 100"
        assert "commit 2" not in at.events, "a commit waits for the trim before it, so trims are in order"
        await at.gate.release("trim 100")
        await at.pipeline.drain()
        assert [event for event in at.events if event.startswith("trim")] == ["trim 100", "trim 200"]

    run(scenario)


def test_t15_upload_pipeline_order_when_a_prepare_is_refused():
    async def scenario():
        at = Pipeline()
        at.gate.hold("put 1", "prepare 2")
        for offset in range(3):
            at.pipeline.submit(at.block(offset, 100 * (offset + 1)))
        await settled()
        await at.gate.refuse("prepare 2", NodeEpochExpired("stop"))
        assert isinstance(at.failures[0], NodeEpochExpired)
        assert len(at.failures) == 1
        await at.gate.release("put 1")
        await asyncio.wait_for(at.pipeline.drain(), 60)
        assert at.end_of() == 1, "what was before the refused block still goes its way"
        assert "prepare 3" not in at.events, "what was after it does not"
        assert at.pipeline.statistics().blocks_in_flight == 0

    run(scenario)


def test_a_refused_commit_ends_those_after_it_and_deletes_nothing():
    async def scenario():
        at = Pipeline()
        at.gate.hold("commit 1")
        at.pipeline.submit(at.block(0, 100))
        at.pipeline.submit(at.block(1, 200))
        await settled()
        await at.gate.refuse("commit 1", NodeEpochExpired("stop"))
        await asyncio.wait_for(at.pipeline.drain(), 60)
        assert at.end_of() == 0
        assert "commit 2" not in at.events and "trim 100" not in at.events
        assert len(list(at.store.list())) == 2, "orphans wait for their time limit"
        assert len(at.failures) == 1

    run(scenario)


def test_an_upload_that_is_damaged_ends_the_pipeline():
    async def scenario():
        at = Pipeline()
        at.gate.hold("put 1")
        at.pipeline.submit(at.block(0, 100))
        at.pipeline.submit(at.block(1, 200))
        await settled()
        await at.gate.refuse("put 1", ObjectTruncated("no"))
        await asyncio.wait_for(at.pipeline.drain(), 60)
        assert isinstance(at.failures[0], ObjectTruncated)
        assert at.end_of() == 0

    run(scenario)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("prepare 1", CommitUnknown("?")),
        ("put 1", StoreTransient("?")),
        ("put 1", StoreDenied("the token has expired")),
        ("commit 1", CommitUnknown("?")),
    ],
)
def test_what_is_unavailable_is_asked_again_later(name, error):
    async def scenario():
        at = Pipeline()
        at.gate.hold(name)
        at.pipeline.submit(at.block(0, 100))
        await settled()
        await at.gate.refuse(name, error)
        assert at.end_of() == 0
        at.clock.advance_ms(RETRY_INTERVAL_MS_MIN)
        await at.pipeline.drain()
        assert at.end_of() == 1
        assert not at.failures
        assert len(list(at.store.list())) == 1

    run(scenario)


def test_n11_a_fenced_node_commits_the_same_ids_once_it_has_resumed():
    async def scenario():
        at = Pipeline()
        at.gate.hold("commit 1")
        at.pipeline.submit(at.block(0, 100))
        await settled()
        at.client.execute(FenceNode(NODE, at.epoch))
        await at.gate.release("commit 1")
        at.clock.advance_ms(10 * RETRY_INTERVAL_MS_MAX)
        await settled()
        assert at.end_of() == 0 and "trim 100" not in at.events
        assert "resumes by itself" in at.pipeline.statistics().outage.remedy
        at.client.execute(ResumeNode(NODE, at.epoch, "a"))
        at.clock.advance_ms(RETRY_INTERVAL_MS_MAX)
        await at.pipeline.drain()
        assert at.end_of() == 1 and not at.failures
        assert [event for event in at.events if event.startswith(("prepare", "put"))] == [
            "prepare 1", "prepare 1 done", "put 1",
        ]  # fmt: skip

    run(scenario)


def test_a_commit_that_was_done_and_whose_answer_was_lost_succeeds_when_asked_again():
    async def scenario():
        at = Pipeline()
        done = at.client.execute

        def lose_the_first_commit(command):
            answer = done(command)
            if isinstance(command, CommitUpload):
                at.client.execute = done
                raise CommitUnknown("the answer was lost")
            return answer

        at.client.execute = lose_the_first_commit
        at.pipeline.submit(at.block(0, 100))
        await settled()
        assert at.end_of() == 1
        assert "trim 100" not in at.events, "unknown is not done"
        at.clock.advance_ms(RETRY_INTERVAL_MS_MIN)
        await at.pipeline.drain()
        assert at.events[-1] == "trim 100"
        assert not at.failures

    run(scenario)
