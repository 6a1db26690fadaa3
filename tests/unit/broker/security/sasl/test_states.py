"""Every pair of state and event: what is in the table is as the reference has it, and everything else closes."""

from itertools import product

from siltstone.broker.security.sasl.states import LOGIN_MOVES, LoginAnswer, LoginEvent
from siltstone.model.access import SessionState

ROWS = """
start           VERSIONS          VERSIONS            versions
start           VERSIONS_UNKNOWN  VERSIONS_REFUSED    start
start           SOFTWARE_UNFIT    SOFTWARE_REFUSED    start
start           HANDSHAKE         MECHANISMS          exchange
start           NODE_HANDSHAKE    MECHANISMS          exchange
start           HANDSHAKE_UNFIT   MECHANISMS_REFUSED  closing
versions        HANDSHAKE         MECHANISMS          exchange
versions        NODE_HANDSHAKE    MECHANISMS          exchange
versions        HANDSHAKE_UNFIT   MECHANISMS_REFUSED  closing
exchange        GOES_ON           CHALLENGE           exchange
exchange        COMPLETE          SUCCESS             authenticated
exchange        WRONG             FAILURE             closing
authenticated   HANDSHAKE         MECHANISMS          reauthenticate
authenticated   NODE_HANDSHAKE    MECHANISMS          exchange
authenticated   HANDSHAKE_UNFIT   MECHANISMS_REFUSED  closing
authenticated   TOO_EARLY         ILLEGAL             authenticated
authenticated   UNASKED           ILLEGAL             authenticated
reauthenticate  GOES_ON           CHALLENGE           reauthenticate
reauthenticate  COMPLETE          SUCCESS             authenticated
reauthenticate  WRONG             FAILURE             closing
"""


def test_sa03_the_table_is_the_one_that_is_written_down() -> None:
    written = {
        (SessionState(state), LoginEvent[event]): (LoginAnswer[reply], SessionState(after))
        for state, event, reply, after in (line.split() for line in ROWS.strip().splitlines())
    }
    assert {pair: (move.reply, move.state) for pair, move in LOGIN_MOVES.items()} == written


def test_sa03_only_a_proof_leads_to_a_session() -> None:
    into = {
        (state, event)
        for (state, event), move in LOGIN_MOVES.items()
        if move.state is SessionState.AUTHENTICATED
    }
    before = {state for state, _ in into} - {SessionState.AUTHENTICATED}
    assert before == {SessionState.EXCHANGE, SessionState.REAUTHENTICATE}
    assert {event for state, event in into if state in before} == {LoginEvent.COMPLETE}


def test_sa03_nothing_follows_a_refusal_and_no_other_request_is_in_the_table() -> None:
    assert not [pair for pair in LOGIN_MOVES if pair[0] is SessionState.CLOSING]
    assert not [pair for pair in product(SessionState, [LoginEvent.OTHER]) if pair in LOGIN_MOVES]
