"""Decides the commands about flushes: the requests to a live node are numbered, and only its newest life may answer.

An earlier life of the node that is still running has nothing to commit, and would answer at once; the records that the
newest life has acknowledged would then be missing in a scan. So an answer is fenced like a commit (rule 7).
"""

from msgspec.structs import replace

from siltstone.metadata.decisions.fences import Decision, check_node
from siltstone.metadata.decisions.membership import known_node
from siltstone.metadata.flushes import AnswerFlush, AskFlush, encode_flushes, flush_key, flushes_of
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import KeySet
from siltstone.metadata.refusals import CommandMalformed, NodeSuspended


def decide_ask_flush(view: ImageView, command: AskFlush, now_ms: int) -> Decision[int]:
    node = known_node(view, command.node_id)
    if not node.is_live:
        raise NodeSuspended(
            f"node {node.node_id} is silent, so it flushes nothing now; ask again when it is back"
        )
    standing = flushes_of(view, command.node_id)
    asked = replace(standing, asked=standing.asked + 1)
    return Decision((KeySet(flush_key(command.node_id), encode_flushes(asked)),), asked.asked)


def decide_answer_flush(view: ImageView, command: AnswerFlush, now_ms: int) -> Decision[None]:
    check_node(view, command.node_id, command.node_epoch)
    standing = flushes_of(view, command.node_id)
    if command.number > standing.asked:
        raise CommandMalformed(
            f"node {command.node_id} was asked for {standing.asked} flushes, and answers number {command.number}"
        )
    if command.number <= standing.answered:
        return Decision((), None)
    answered = replace(standing, answered=command.number)
    return Decision((KeySet(flush_key(command.node_id), encode_flushes(answered)),), None)
