"""Renews the pin of a scan that is read for longer than its lease, and ends the pin when the scan is closed.

A thread renews at a third of the lease, so two renewals may fail before the pin can be ended by a sweep. The thread
opens the metadata for each renewal, so that it holds no connection for the hours between. The pin was put before the
plan's image was taken, by the plan itself. Like the pin, each entry is written only to the newest metadata (rule 11).
"""

import logging
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event, Thread, current_thread

from siltstone.metadata.commands import PinScan, UnpinScan
from siltstone.model.errors import SiltstoneError, Stale
from siltstone.model.limits import SECOND_MS
from siltstone.offline.context import MaintenanceContext, check_metadata_is_newest
from siltstone.runtime.clock import Clock

log = logging.getLogger(__name__)

CLOSE_SECONDS_MAX = 10.0
"""How long the end of a program waits for the record that ends the pin; without it a sweep ends the pin later."""

Opened = AbstractContextManager[MaintenanceContext]


class PinRenewal:
    """Renews a pin from its start until ``close``."""

    def __init__(self, open_source: Callable[[], Opened], token: str, lease_ms: int, clock: Clock) -> None:
        self._open_source = open_source
        self._token = token
        self._lease_ms = lease_ms
        self._clock = clock
        self._closing = Event()
        self._leaves_pin = Event()
        self._thread = Thread(target=self._run, name="scan-pin", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def keep_for(self, holder: object, *, leaves_pin: bool = False) -> None:
        """Starts, and closes when the object is collected as garbage, or at the end of the program. With ``leaves_pin``
        garbage collection only ends the renewals, and the pin lasts until the end of its lease: objects that were made
        from this one may still be in use."""
        weakref.finalize(
            holder, _stop_renewing, self._closing, self._leaves_pin if leaves_pin else None
        ).atexit = False
        weakref.finalize(self, _close, self._closing, self._thread)
        self.start()

    def close(self) -> None:
        """Ends the pin; returns when the record is written, or after CLOSE_SECONDS_MAX."""
        _close(self._closing, self._thread)

    def _run(self) -> None:
        while not self._closing.wait(self._lease_ms / 3 / SECOND_MS):
            if not self._renew():
                return
        if self._leaves_pin.is_set():
            return
        try:
            with self._open_source() as source:
                check_metadata_is_newest(source)
                source.metadata.execute(UnpinScan(self._token))
        except SiltstoneError as trouble:
            log.info(
                "the pin %s of a scan could not be ended; a sweep ends it later: %s", self._token, trouble
            )

    def _renew(self) -> bool:
        """Renews the pin once. Returns false if the pin was ended, so that it cannot be renewed any more."""
        try:
            with self._open_source() as source:
                check_metadata_is_newest(source)
                source.metadata.execute(PinScan(self._token, self._lease_ms, renews=True))
        except Stale as ended:
            log.warning("%s", ended)
            return False
        except SiltstoneError as trouble:
            log.warning(
                "the pin %s of a scan could not be renewed, which is tried again: %s", self._token, trouble
            )
        return True


def _stop_renewing(closing: Event, leaves_pin: Event | None) -> None:
    if leaves_pin is not None:
        leaves_pin.set()
    closing.set()


def _close(closing: Event, thread: Thread) -> None:
    closing.set()
    if thread.is_alive() and thread is not current_thread():
        thread.join(CLOSE_SECONDS_MAX)
