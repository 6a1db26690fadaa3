"""The pins of a streaming query: the objects of a micro-batch stay in their buckets until the batch is over.

Each micro-batch has a pin of its own with a new token. A query that renewed one pin for ever would hold all that was
destroyed since it began. While a batch runs, Spark does not call the query's source, so a thread renews the pin. If the
pin was ended all the same, the task that misses an object raises ScanOutdated.
"""

import logging
import threading
from collections.abc import Callable

from siltstone.metadata.commands import PinScan, UnpinScan
from siltstone.metadata.refusals import Refusal
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.offline.context import MaintenanceContext, check_metadata_is_newest
from siltstone.runtime.randomness import random_token

log = logging.getLogger(__name__)

RENEWALS_PER_LEASE = 3
"""Two renewals may fail before the lease is over."""

Spawn = Callable[[Callable[[], None]], None]
"""Runs a function in a thread that does not keep the process alive."""


def spawn_thread(function: Callable[[], None]) -> None:
    threading.Thread(target=function, name="siltstone-scan-pin", daemon=True).start()


class BatchPins:
    """Pins that were taken and not yet ended. A lease of 0 ms takes none."""

    def __init__(
        self, source: MaintenanceContext, lease_ms: int, holder: str, spawn: Spawn = spawn_thread
    ) -> None:
        self._source = source
        self._lease_ms = lease_ms
        self._holder = holder
        self._spawn = spawn
        self._tokens: list[str] = []
        self._over = threading.Event()
        self._is_renewing = False
        self._is_checked = False

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(self._tokens)

    def take(self) -> int:
        """Pins the objects that the metadata names from now on. Returns the earliest end of the lease, in ms since
        1970, and 0 without a lease. Raises MetadataOlderThanBucket, BucketMissing, TooManyScans, and what the metadata
        raises."""
        if not self._lease_ms:
            return 0
        if not self._is_checked:  # a pin is an entry of the log, which may be an older copy (rule 11)
            check_metadata_is_newest(self._source)
            self._is_checked = True
        token = random_token(self._source.rng)
        self._tokens.append(token)  # first: the pin may exist although the answer is lost
        until_ms = self._source.metadata.execute(PinScan(token, self._lease_ms, self._holder))
        if not self._is_renewing:
            self._is_renewing = True
            self._spawn(self._renew_until_over)
        return until_ms

    def end_all(self) -> None:
        """Ends the pins: their micro-batches are over. A pin that cannot be ended now is ended by the next call, or by
        a sweep after its lease."""
        for token in self.tokens:
            self._tokens.remove(token)  # first: the thread does not renew it any more
            try:
                self._source.metadata.execute(UnpinScan(token))
            except Unavailable as trouble:
                self._tokens.append(token)
                log.warning("a scan pin could not be ended, and will be later: %s", trouble)
                return

    def renew(self) -> None:
        """Renews the lease of each pin once."""
        for token in self.tokens:
            try:
                self._source.metadata.execute(PinScan(token, self._lease_ms, self._holder, renews=True))
            except Refusal as refusal:
                if token in self._tokens:
                    log.warning("the scan pin of a micro-batch was ended before the batch: %s", refusal)
            except SiltstoneError as trouble:
                log.warning("a scan pin could not be renewed; it is tried again: %s", trouble)

    def close(self) -> None:
        """Ends the pins and the renewing."""
        self._over.set()
        self.end_all()

    def _renew_until_over(self) -> None:
        while not self._over.wait(self._lease_ms / RENEWALS_PER_LEASE / 1000):
            self.renew()
