"""Reads from the copies of an object on the event loop: a copy that does not answer in time is passed over, too.

The thread of that request continues waiting as long as the adapter does, but its answer is no longer used.
"""

from collections.abc import Callable
from typing import TypeVar

from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import SECOND_MS
from siltstone.object_store.copies import Copies
from siltstone.object_store.port import ObjectStore, StoreTransient
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import ends_in_time

T = TypeVar("T")

COPY_ANSWERS_MS_MAX = 5 * SECOND_MS
"""A read of 16 MiB takes two seconds over a slow line. The client waits for its records meanwhile."""


async def read_any(copies: Copies, calls: BlockingCalls, clock: Clock, call: Callable[[ObjectStore], T]) -> T:
    """Returns what ``call`` returns for the first copy that answers in time and for which it raises nothing. The last
    try has no time limit. If ``call`` raises for all copies, raises the error of the first one."""
    if not copies.are_several:
        return await calls.run(call, copies.first)
    failures: list[tuple[int, SiltstoneError]] = []
    asked: set[int] = set()
    for bucket_id, store in copies.turns(failures):
        answer: list[T] = []

        async def ask(store: ObjectStore = store, answer: list[T] = answer) -> None:
            answer.append(await calls.run(call, store))

        try:
            if bucket_id in asked:
                await ask()
            elif not await ends_in_time(ask(), clock, COPY_ANSWERS_MS_MAX):
                raise StoreTransient(f"bucket {bucket_id} did not answer in time", uncertain=False)
        except SiltstoneError as failure:
            asked.add(bucket_id)
            failures.append((bucket_id, failure))
        else:
            copies.passed_over(failures)
            return answer[0]
    raise failures[0][1]
