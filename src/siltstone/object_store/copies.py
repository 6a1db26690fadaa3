"""Reads an object that is in several buckets: its copies are tried in turn, and the first right answer counts.

A copy that is missing, truncated or damaged, or whose bucket does not answer, is passed over (B11). As long as there is
another copy, a request is tried once, because retries at a bucket that is out would only delay the reader. When no copy
has answered, the copies whose bucket may still answer are tried again, now with retries."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.object_store.bandwidth.passage import Passage
from siltstone.object_store.port import ObjectStore
from siltstone.object_store.retrying import RetryingStore, passing

T = TypeVar("T")

OnPassedOver = Callable[[int, SiltstoneError], None]
"""Is called with the id of a bucket whose copy could not be read, so that another copy was, and with the error."""


class Copies:
    """Reads the copies of one object, in the order in which they are given."""

    def __init__(
        self, stores: Sequence[tuple[int, ObjectStore]], on_passed_over: OnPassedOver = lambda *_: None
    ) -> None:
        """``stores``: pairs of bucket id and store, at least one."""
        assert stores, "an object without a bucket"
        self._stores = stores
        self._on_passed_over = on_passed_over

    @property
    def are_several(self) -> bool:
        return len(self._stores) > 1

    @property
    def first(self) -> ObjectStore:
        return self._stores[0][1]

    def passing(self, passage: Passage) -> "Copies":
        """Returns the same copies; the bytes of requests to them pass as ``passage`` says."""
        stores = [(bucket_id, passing(store, passage)) for bucket_id, store in self._stores]
        return Copies(stores, self._on_passed_over)

    def read(self, call: Callable[[ObjectStore], T]) -> T:
        """Returns what ``call`` returns for the first copy for which it raises no SiltstoneError. If it raises for all
        copies, raises the error of the first one."""
        if not self.are_several:
            return call(self.first)
        failures: list[tuple[int, SiltstoneError]] = []
        for bucket_id, store in self.turns(failures):
            try:
                result = call(store)
            except SiltstoneError as failure:
                failures.append((bucket_id, failure))
            else:
                self.passed_over(failures)
                return result
        raise failures[0][1]

    def turns(self, failures: Sequence[tuple[int, SiltstoneError]]) -> Iterator[tuple[int, ObjectStore]]:
        """Yields the copies to try: first each copy without retries, then, with retries, the copies whose bucket did
        not answer. The caller adds to ``failures`` meanwhile."""
        for bucket_id, store in self._stores:
            yield bucket_id, _once(store)
        silent = {bucket_id for bucket_id, failure in failures if isinstance(failure, Unavailable)}
        yield from (each for each in self._stores if each[0] in silent)

    def passed_over(self, failures: Sequence[tuple[int, SiltstoneError]]) -> None:
        """Reports the copies that failed before another one answered."""
        for bucket_id, failure in dict(failures).items():
            self._on_passed_over(bucket_id, failure)


def _once(store: ObjectStore) -> ObjectStore:
    return store.without_retries() if isinstance(store, RetryingStore) else store
