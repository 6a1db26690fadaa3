"""The code with one rule of the transaction protocol left out, by the names of ``tests/model``: what the model says of
each rule is shown again, in the code."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.producer_state import StaleProducerEpoch
from siltstone.broker.partitions.transaction_state import MarkerVerdict, PartitionTransactions
from siltstone.broker.transaction_topic import PartitionMarkers, TransactionNotKnown
from siltstone.broker.transactions.coordinator import TransactionCoordinator
from siltstone.broker.transactions.rules import deciding
from siltstone.broker.transactions.rules.requests import End
from siltstone.broker.transactions.rules.states import TABLE, TransactionEvent, TransactionStep
from siltstone.broker.transactions.state_log.record import TransactionState
from siltstone.kafka_protocol.error_code import ErrorCode

Patch = pytest.MonkeyPatch
ONGOING = TransactionState.ONGOING
PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
MARKER_JUDGED = PartitionTransactions.judge_marker


def permission_is_durable(patch: Patch) -> None:
    async def permit(self: Any, transactional_id: str, add: Any, *, adds: bool) -> Any:
        return await (self.join if adds else self.joined)(transactional_id, add)

    patch.setattr(TransactionCoordinator, "permit", permit)


def marker_voids_permission(patch: Patch) -> None:
    appended = PartitionTransactions.marker_appended

    def marked(self: Any, *arguments: Any) -> None:
        questions, self._questions = self._questions, {}
        appended(self, *arguments)
        self._questions = questions

    patch.setattr(PartitionTransactions, "marker_appended", marked)


def older_coordinator_is_refused(patch: Patch) -> None:
    def judged(self: Any, ending: Any) -> MarkerVerdict:
        marker = msgspec.structs.replace(ending.marker, coordinator_epoch=1 << 30)
        return MARKER_JUDGED(self, msgspec.structs.replace(ending, marker=marker))

    patch.setattr(PartitionTransactions, "judge_marker", judged)
    patch.setattr(PartitionTransactions, "coordinator_epoch_of", lambda _, __: -1)


def prepared_is_before_markers(patch: Patch) -> None:
    perform = TransactionCoordinator._perform

    def performed(self: Any, known: Any, decision: Any) -> Any:
        if decision.markers is not None:
            markers, epoch = decision.markers, self._log.coordinator_epoch
            elsewhere = {each for each in markers.partitions if not self._markers.write(each, markers, epoch)}

            async def send() -> None:
                await self._markers.send(frozenset(elsewhere), markers, epoch)

            self._life.tasks.start("too early", send())
        return perform(self, known, decision)

    patch.setattr(TransactionCoordinator, "_perform", performed)


def markers_leave_when_prepared_is_durable(patch: Patch) -> None:
    finish = TransactionCoordinator._finish

    async def finished(self: Any, known: Any, markers: Any) -> None:
        if await self._send(known, markers) and self._finish_now(known, markers):
            return
        await finish(self, known, markers)

    patch.setattr(TransactionCoordinator, "_finish", finished)


def prepared_is_final(patch: Patch) -> None:
    for event in (TransactionEvent.PRODUCER_STARTS, TransactionEvent.PRODUCER_CONTINUES):
        row = TABLE[event]
        patch.setitem(TABLE, event, row | dict.fromkeys(PREPARED, row[ONGOING]))  # type: ignore[operator,call-overload]


def marker_names_its_transaction(patch: Patch) -> None:
    def judged(self: Any, ending: Any) -> MarkerVerdict:
        return MARKER_JUDGED(self, msgspec.structs.replace(ending, number=None))

    patch.setattr(PartitionTransactions, "judge_marker", judged)


def unknown_number_is_asked_for(patch: Patch) -> None:
    def judged(self: Any, ending: Any) -> MarkerVerdict:
        verdict = MARKER_JUDGED(self, ending)
        return MarkerVerdict.ENDS if verdict is MarkerVerdict.IS_UNSURE else verdict

    patch.setattr(PartitionTransactions, "judge_marker", judged)


def late_number_is_void(patch: Patch) -> None:
    async def learned(self: Any, opened: Any, partition: Any, ending: Any) -> None:
        found = await self._open_of(ending.producer_id, partition)
        if isinstance(found, ErrorCode) or partition not in found.partitions:
            raise TransactionNotKnown("the coordinator does not say it")
        opened.transactions.number_is(ending.producer_id, found.number, found.coordinator_epoch)

    patch.setattr(PartitionMarkers, "_learn_number", learned)


def marker_without_data_is_written(patch: Patch) -> None:
    append = Partition.append_marker

    def appended(self: Any, ending: Any) -> Any:
        entry = self.producers.get(ending.producer_id)
        return append(self, ending) if entry is not None and entry.is_open else None

    patch.setattr(Partition, "append_marker", appended)


def repeated_marker_is_answered(patch: Patch) -> None:
    def judged(self: Any, ending: Any) -> MarkerVerdict:
        verdict = MARKER_JUDGED(self, ending)
        if verdict is MarkerVerdict.IS_REPEATED:
            raise StaleProducerEpoch("it is there already")
        return verdict

    patch.setattr(PartitionTransactions, "judge_marker", judged)


def complete_when_all_have_answered(patch: Patch) -> None:
    async def send(self: Any, known: Any, markers: Any) -> bool:
        if not self._has(known):
            return False
        await self._markers.send(known.left, markers, self._log.coordinator_epoch)
        known.left = frozenset()
        return bool(self._has(known))

    patch.setattr(TransactionCoordinator, "_send", send)


def loaded_markers_are_sent_again(patch: Patch) -> None:
    async def nothing(self: Any, known: Any, markers: Any) -> None:
        known.left = frozenset()
        self._finish_now(known, markers)

    patch.setattr(TransactionCoordinator, "_finish_loaded", nothing)


def fence_raises_epoch(patch: Patch) -> None:
    end_epoch = deciding.STEPS[TransactionStep.END_EPOCH]

    def ended(draft: Any, request: Any) -> None:
        if isinstance(request, End):
            end_epoch(draft, request)
        else:
            draft.change(client_version=0)

    patch.setitem(deciding.STEPS, TransactionStep.END_EPOCH, ended)  # type: ignore[arg-type]


def visible_when_durable(patch: Patch) -> None:
    def stable(self: Any, high_watermark: int, log_start_offset: int) -> int:
        while self._open:
            first, one = next(iter(self._open.items()))
            if one.marker_offset < 0:
                return max(min(high_watermark, first), min(log_start_offset, high_watermark))
            del self._open[first]
        return high_watermark

    patch.setattr(PartitionTransactions, "last_stable_offset", stable)


LEFT_OUT: dict[str, Callable[[Patch], None]] = {
    leave.__name__: leave
    for leave in (
        permission_is_durable, marker_voids_permission, older_coordinator_is_refused, prepared_is_before_markers,
        markers_leave_when_prepared_is_durable, prepared_is_final, marker_names_its_transaction,
        unknown_number_is_asked_for, late_number_is_void, marker_without_data_is_written,
        repeated_marker_is_answered, complete_when_all_have_answered, loaded_markers_are_sent_again,
        fence_raises_epoch, visible_when_durable,
    )
}  # fmt: skip


@contextmanager
def without(rule: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        LEFT_OUT[rule](patch)
        yield
