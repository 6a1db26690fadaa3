"""``Connection`` is one connection, as a protocol of asyncio: it receives requests, sends answers, and stops reading at
its limits.

A connection joins a transport, a ``FrameReader`` (splits received bytes into frames) and a ``RequestPipeline`` (turns
frames into answers). It stops at these limits:

    stops reading             its requests are too many or too large; the requests of all connections are too large; the
                              store accepts no more records; it is muted
    stops beginning requests  its client leaves answers unread; the clients of all connections do, and this one receives
                              large answers; the store accepts no more records; it is muted

An unexpected exception closes this connection and no other. Read next: ``request_pipeline``.
"""

import asyncio
import logging
import sys
from collections.abc import Callable

from siltstone.broker.request import CloseConnection, ConnectionContext
from siltstone.model.access import SessionState
from siltstone.model.buffers import Buffer, total_bytes
from siltstone.model.serving_limits import ANSWER_PROGRESS_BYTES_MIN, SASL_FRAME_BYTES_MAX
from siltstone.runtime.clock import Timer
from siltstone.server.network.answer_memory import unpinned
from siltstone.server.network.frame_reader import FrameReader, FrameRefused
from siltstone.server.network.parts import NetworkParts
from siltstone.server.network.request_pipeline import RequestPipeline
from siltstone.server.network.statistics import CloseReason
from siltstone.server.network.tls_transport import TlsTransport

log = logging.getLogger(__name__)

_LEVELS = {
    CloseReason.MALFORMED: logging.WARNING,
    CloseReason.UNREAD_ANSWERS: logging.WARNING,
    CloseReason.REFUSED: logging.INFO,
    CloseReason.SLOW_READER: logging.INFO,
    CloseReason.SLOW_REQUEST: logging.INFO,
    CloseReason.LOGIN: logging.INFO,
    CloseReason.SESSION_ENDED: logging.INFO,
}
"""The log level of each close reason; the others are normal and logged at DEBUG. Failures are logged where they are
caught."""


class Connection(asyncio.BufferedProtocol):
    """The protocol of an admitted transport. ``on_gone`` is called once, when the connection is lost."""

    def __init__(
        self,
        parts: NetworkParts,
        context: ConnectionContext,
        transport: "asyncio.Transport | TlsTransport",
        on_gone: "Callable[[Connection], None]",
    ) -> None:
        self._parts = parts
        self._settings = parts.settings
        self.context = context
        self._transport = transport
        self._on_gone = on_gone
        self._is_unauthenticated = context.session.state is not SessionState.AUTHENTICATED
        self._reader = self._new_reader()
        handle = parts.handler.handle
        self._pipeline = RequestPipeline(
            lambda frame: handle(context, frame), parts.tasks, self._may_begin, self.go_on
        )
        self._charged = (0, 0)
        self._sent_bytes = 0
        self._is_reading = True
        self._reads_only_its_frame = False
        self._is_writing_paused = False
        self._receives_much = False
        self._is_turn_scheduled = False
        self._end_of_mute: Timer | None = None
        self._finish_reason: CloseReason | None = None
        self._has_peer_ended = False
        self._active_ms = self._admitted_ms = parts.now_ms
        self._progress_bytes, self._progress_ms = 0, parts.now_ms
        self.close_reason: CloseReason | None = None
        self.carried: Callable[[ConnectionContext, int], None] | None = None
        """Counts bytes for the ceiling of the listener; None: it has none."""
        transport.set_write_buffer_limits(high=parts.settings.connection_answer_bytes_max)
        if self._is_unauthenticated:
            self._reader.allow(SASL_FRAME_BYTES_MAX, "what is taken before a login")
            parts.unauthenticated[self] = None

    def _new_reader(self) -> FrameReader:
        return FrameReader(self._parts.receive_buffer, self._settings.socket_request_max_bytes)

    # -- before the login --------------------------------------------------------------------------------

    def turn_away(self) -> None:
        self.close(CloseReason.LOGIN, "too many connections are not logged in, and this is the oldest")

    def _look_at_login(self) -> None:
        """Lifts the limits of a connection when it has logged in, and lets a connection end whose login has failed."""
        state = self.context.session.state
        if self._is_unauthenticated and state is SessionState.AUTHENTICATED:
            self._is_unauthenticated = False
            self._parts.unauthenticated.pop(self, None)
            self._reader.allow(self._settings.socket_request_max_bytes)
        elif state is SessionState.CLOSING and self._finish_reason is None:
            self._finish_reason = CloseReason.LOGIN
            self._pipeline.finish()

    # -- callbacks of the event loop ---------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        memory = self._parts.request_memory
        may_grow = not memory.is_short or memory.is_finisher(self)
        return self._reader.buffer(
            only_its_frame=self._reads_only_its_frame or memory.is_short, may_grow=may_grow
        )

    def buffer_updated(self, nbytes: int) -> None:
        if self.close_reason is not None:
            return
        try:
            self._parts.counters.bytes_in += nbytes
            if self.carried is not None:
                self.carried(self.context, nbytes)
            self._reader.received(nbytes)
            self._take()
            self._turn()
        except FrameRefused as refusal:
            self.close(CloseReason.MALFORMED, str(refusal))
        except Exception:
            self._fail()

    def eof_received(self) -> None:
        self._end_with_peer()

    def _end_with_peer(self) -> None:
        """Begins what arrived before the peer's end, though nobody waits for the answers: a producer with acks=0
        closes its connection after its last request."""
        if self.close_reason is not None:
            return
        try:
            self._has_peer_ended = True
            dropped: list[Buffer] = []
            self._pipeline.add(self._reader.take(sys.maxsize))
            while self._pipeline.advance(dropped):
                dropped.clear()
            if self._pipeline.failure is not None:
                self._close_for(self._pipeline.failure)
        except FrameRefused as refusal:
            self.close(CloseReason.MALFORMED, str(refusal))
        except Exception:
            self._fail()
        self.close(CloseReason.PEER)

    def pause_writing(self) -> None:
        self._is_writing_paused = True
        self._note_progress(self._parts.now_ms)
        self._parts.answer_memory.note(self)

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._parts.answer_memory.forget(self)
        self._schedule_turn()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:  # without ``eof_received``, as uvloop does when a peer with TLS says no goodbye
            self._end_with_peer()
        self.close(CloseReason.LOST, repr(exc))
        self._pipeline.abandon()
        self._charge(0, 0)
        self._parts.answer_memory.forget(self)
        self._on_gone(self)
        try:
            self._parts.handler.connection_closed(self.context)
        except Exception:
            log.exception("the handler failed when %s had been closed", self)

    # -- one turn ----------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Starts requests, sends answers and continues to read, as far as limits allow. Called when something has
        changed."""
        self._is_turn_scheduled = False
        if self.close_reason is not None:
            return
        try:
            self._turn()
        except FrameRefused as refusal:
            self.close(CloseReason.MALFORMED, str(refusal))
        except Exception:
            self._fail()

    def _turn(self) -> None:
        has_more = True
        while has_more:
            answers: list[Buffer] = []
            waits_for_turn = self._pipeline.advance(answers)
            if answers:
                self._send(answers)
            if self._pipeline.failure is not None:
                self._close_for(self._pipeline.failure)
                return
            self._look_at_login()
            if self.context.muted_until_ms and self._end_of_mute is None:
                self._watch_mute()
            if waits_for_turn:
                self._schedule_turn()
            has_more = not waits_for_turn and self._reader.has_rest and self._take()
        if self._finish_reason is not None and not self._pipeline.unanswered_count:
            self.close(self._finish_reason)
            return
        self._settle()

    def _schedule_turn(self) -> None:
        if not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            asyncio.get_running_loop().call_soon(self.go_on)

    def _take(self) -> bool:
        """Takes frames out of the received bytes, as many as may wait. Returns whether there was one."""
        room = 1 if self._is_unauthenticated else self._settings.connection_requests_max
        room -= self._pipeline.unanswered_count
        frames = self._reader.take(max(room, 0))
        if not frames:
            return False
        self._pipeline.add(frames)
        self._parts.counters.requests += len(frames)
        self._active_ms = self._parts.now_ms
        self._parts.request_memory.frame_ended(self)
        return True

    def _send(self, answers: list[Buffer]) -> None:
        """Sends all answers that are ready, with one system call."""
        byte_count = total_bytes(answers)
        self._sent_bytes += byte_count
        self._transport.writelines(unpinned(answers))
        self._parts.counters.bytes_out += byte_count
        if self.carried is not None:
            self.carried(self.context, byte_count)
        self._active_ms = self._parts.now_ms
        self._receives_much = byte_count > self._settings.connection_answer_bytes_max
        if self._is_writing_paused:
            self._parts.answer_memory.note(self)

    def _settle(self) -> None:
        """Updates the memory charged for this connection, and pauses or resumes reading."""
        self._charge(self._pipeline.held_bytes, self._reader.held_bytes)
        if self._parts.store_line:
            self._parts.store_line.room_made()
        may_read = self._may_read()
        if may_read is self._is_reading:
            return
        self._is_reading = may_read
        if may_read:
            self._active_ms = self._parts.now_ms
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _charge(self, request_bytes: int, frame_bytes: int) -> None:
        charged_request_bytes, charged_frame_bytes = self._charged
        if request_bytes != charged_request_bytes or frame_bytes != charged_frame_bytes:
            self._charged = request_bytes, frame_bytes
            self._parts.request_memory.add(
                request_bytes - charged_request_bytes, frame_bytes - charged_frame_bytes
            )

    # -- muted -------------------------------------------------------------------------------------------

    def _watch_mute(self) -> None:
        clock = self._parts.clock
        left_ms = self.context.muted_until_ms - clock.monotonic_ms()
        self._end_of_mute = clock.call_after_ms(max(left_ms, 0.0), self._look_at_mute)

    def _look_at_mute(self) -> None:
        """Ends the mute, unless it was made longer meanwhile."""
        self._end_of_mute = None
        if self._parts.clock.monotonic_ms() < self.context.muted_until_ms:
            self._watch_mute()
            return
        self.context.muted_until_ms = 0.0
        self.go_on()

    @property
    def _is_muted(self) -> bool:
        """A mute must not hold the memory of requests that others wait for: while it is short, nobody is muted."""
        return bool(self.context.muted_until_ms) and not self._parts.request_memory.is_short

    # -- limits ------------------------------------------------------------------------------------------

    def _may_begin(self) -> bool:
        if self._has_peer_ended:
            return True
        if self._is_writing_paused or self._is_muted or self._waits_for_store():
            return False
        return not self._receives_much or self._parts.answer_memory.line.admits(self)

    def _may_read(self) -> bool:
        pipeline = self._pipeline
        if (
            self._reader.has_rest
            or pipeline.has_ended
            or pipeline.held_bytes >= self._settings.connection_request_bytes_max
            or pipeline.unanswered_count
            >= (1 if self._is_unauthenticated else self._settings.connection_requests_max)
            or self.context.requests_held > 0
            or self._is_muted
            or self._waits_for_store()
        ):
            return False
        self._reads_only_its_frame = not self._parts.request_memory.admits(self)
        return not self._reads_only_its_frame or self._reader.has_paid_room

    def _waits_for_store(self) -> bool:
        return self.context.sends_records and not self._parts.store_line.admits(self)

    @property
    def is_mid_frame(self) -> bool:
        return self._reader.is_mid_frame

    @property
    def has_paid_room(self) -> bool:
        return self._reader.has_paid_room

    @property
    def unread_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    @property
    def unanswered_count(self) -> int:
        return self._pipeline.unanswered_count

    # -- time limits -------------------------------------------------------------------------------------

    def inspect(self, now_ms: float) -> None:
        """Closes the connection if a time limit has passed. Called once a second."""
        if self.close_reason is not None:
            if self._is_stalled(now_ms):
                self._transport.abort()
        elif (reason := self._overdue(now_ms)) is not None:
            self.close(reason, at_once=reason is CloseReason.SLOW_READER)
        elif self.context.muted_until_ms and not self._is_muted:
            self.go_on()

    def _overdue(self, now_ms: float) -> CloseReason | None:
        if self._is_writing_paused:
            return CloseReason.SLOW_READER if self._is_stalled(now_ms) else None
        if self._is_unauthenticated and now_ms - self._admitted_ms >= self._settings.authentication_ms_max:
            return CloseReason.LOGIN
        if not self._is_reading:
            return None
        inactive_ms = now_ms - self._active_ms
        if self._reader.is_mid_frame and inactive_ms >= self._request_limit_ms():
            return CloseReason.SLOW_REQUEST
        if not self._pipeline.unanswered_count and inactive_ms >= self._settings.connections_max_idle_ms:
            return CloseReason.IDLE
        return None

    def _request_limit_ms(self) -> int:
        idle_ms = self._settings.connections_max_idle_ms
        return min(idle_ms, self._settings.request_stalled_ms_max) if self._others_wait() else idle_ms

    def _is_stalled(self, now_ms: float) -> bool:
        """Returns whether the client has not read its answers for too long."""
        if self._sent_bytes - self.unread_bytes >= self._progress_bytes + ANSWER_PROGRESS_BYTES_MIN:
            self._note_progress(now_ms)
        limit_ms = self._settings.answer_stalled_ms_max
        if self._others_wait():
            limit_ms = min(limit_ms, self._settings.request_stalled_ms_max)
        return now_ms - self._progress_ms >= limit_ms

    def _note_progress(self, now_ms: float) -> None:
        self._progress_bytes, self._progress_ms = self._sent_bytes - self.unread_bytes, now_ms

    def _others_wait(self) -> bool:
        return bool(self._parts.request_memory.line) or bool(self._parts.answer_memory.line)

    # -- the end -----------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Stops reading, answers the requests that were started, then closes. Called when the node closes."""
        if self.close_reason is None:
            self._finish_reason = CloseReason.SHUTDOWN
            self._pipeline.finish()
            self.go_on()

    def end_session(self) -> None:
        self.close(CloseReason.SESSION_ENDED, f"the sessions of {self.context.principal} were ended")

    def _log_level(self, reason: CloseReason) -> int:
        """If many connections of a host close for one reason, one line a minute is enough."""
        level = _LEVELS.get(reason, logging.DEBUG)
        subject = (reason, self.context.client_host)
        is_worth_it = level == logging.DEBUG or self._parts.closings_limit.is_due(subject)
        return level if is_worth_it else logging.DEBUG

    def close_for_unread_answers(self) -> None:
        self.close(CloseReason.UNREAD_ANSWERS, f"{self.unread_bytes} bytes of answers", at_once=True)

    def close(self, reason: CloseReason, detail: str = "", *, at_once: bool = False) -> None:
        """Closes the connection, after sending the answers that the transport has, unless ``at_once``. Only the first
        call's reason counts."""
        if self.close_reason is None:
            self.close_reason = reason
            log.log(
                self._log_level(reason),
                "%s closed: %s%s",
                self,
                reason,
                f": {detail}" if detail else "",
            )
            self._note_progress(self._parts.now_ms)
            self._release()
            self._transport.close()
        if at_once:
            self._transport.abort()

    def _release(self) -> None:
        """Releases all memory and places in waiting lines; unread answers stay charged until they are sent."""
        self._pipeline.finish()
        self._reader.discard()
        self._charge(self._pipeline.held_bytes, 0)
        if self._end_of_mute is not None:
            self._end_of_mute.cancel()
        self._parts.unauthenticated.pop(self, None)
        self._parts.store_line.leave(self)
        self._parts.answer_memory.line.leave(self)
        self._parts.request_memory.leave(self)

    def _close_for(self, failure: BaseException) -> None:
        if isinstance(failure, CloseConnection):
            self.close(CloseReason.REFUSED, str(failure))
            return
        log.error("%s: a request failed: %r", self, failure, exc_info=failure)
        self.close(CloseReason.FAILURE)

    def _fail(self) -> None:
        log.exception("%s failed", self)
        self.close(CloseReason.FAILURE, at_once=True)

    def __str__(self) -> str:
        return f"connection {self.context.connection_id} from {self.context.client_host}"


class TlsConnection(Connection):
    """A connection with TLS. It writes in pieces (``tls_transport``), and reads whatever was decrypted at once: at the
    peer's end, event loops drop what does not fit into the buffer that they are given."""

    def __init__(
        self,
        parts: NetworkParts,
        context: ConnectionContext,
        transport: asyncio.Transport,
        on_gone: "Callable[[Connection], None]",
    ) -> None:
        self._paced = TlsTransport(transport, super().pause_writing, super().resume_writing)
        super().__init__(parts, context, self._paced, on_gone)

    def _new_reader(self) -> FrameReader:
        size_max = self._settings.socket_request_max_bytes
        return FrameReader(self._parts.decrypted_buffer, size_max, takes_everything=True)

    def pause_writing(self) -> None:
        self._paced.below_is_full()

    def resume_writing(self) -> None:
        self._paced.below_has_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._paced.lost()
        super().connection_lost(exc)
