"""The authorizer: super users, modes, what is kept with a connection, the log, and the floor of a node."""

import logging

import pytest
from msgspec.structs import replace

from siltstone.broker.request import ConnectionContext, Listener, Question
from siltstone.broker.request_measures import RequestMeasures
from siltstone.broker.security.authorizer import (
    AuthorizationTooWeak,
    Authorizer,
    plain_host,
    refuse_weaker_mode,
)
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.metadata.acls import CreateAcls, DeleteAcls, SetAuthorization
from siltstone.model.access import Principal
from siltstone.model.acls import AclOperation, AclResourceType, Authorization, AuthorizationMode, Permission
from siltstone.model.serving_limits import DENIALS_LOGGED_PER_SECOND_MAX, VERDICTS_MAX
from siltstone.runtime.clock import ManualClock
from support.metadata.metadata_world import MetadataWorld
from support.security.rights import ROOT, STRANGER, allow

TOPIC = AclResourceType.TOPIC
READ, WRITE = AclOperation.READ, AclOperation.WRITE
READS_T = allow(READ, TOPIC, "t")
OFF, REPORT, ON = AuthorizationMode.OFF, AuthorizationMode.REPORT, AuthorizationMode.ON


class Rights:
    def __init__(self, floor: AuthorizationMode = OFF) -> None:
        self.world = MetadataWorld()
        self.clock = ManualClock()
        self.measures = RequestMeasures()
        self.authorizer = Authorizer(lambda: self.world.image, self.clock, self.measures, floor)
        self.connection = self.connect(STRANGER)

    def connect(self, principal: Principal, host: str = "10.0.0.1") -> ConnectionContext:
        listener = Listener("PLAINTEXT", "h", 9092)
        return ConnectionContext(1, host, listener, principal=principal)

    def switch(self, mode: AuthorizationMode) -> None:
        self.world.do(SetAuthorization(mode, added=(str(ROOT),)))

    def may(
        self,
        operation: AclOperation = READ,
        name: str | None = "t",
        connection: ConnectionContext | None = None,
    ) -> bool:
        question = Question(operation, TOPIC, name)
        return self.authorizer.may(connection or self.connection, ApiKey.FETCH, question)


@pytest.fixture
def rights() -> Rights:
    made = Rights()
    made.switch(ON)
    return made


def test_off_allows_everything_and_looks_nothing_up() -> None:
    rights = Rights()
    assert rights.authorizer.is_open
    assert rights.may()
    assert not rights.connection.verdicts.allowed


def test_ac04_a_super_user_may_do_what_is_denied_to_it(rights: Rights) -> None:
    rights.world.do(
        CreateAcls((allow(AclOperation.ALL, TOPIC, "*", principal=ROOT, permission=Permission.DENY),))
    )
    assert rights.may(connection=rights.connect(ROOT))
    assert not rights.may()


def test_a_change_of_rights_counts_at_once(rights: Rights) -> None:
    version = rights.authorizer.version
    assert not rights.may()
    rights.world.do(CreateAcls((READS_T,)))
    assert rights.may()
    assert rights.authorizer.version > version
    rights.world.do(DeleteAcls((READS_T,)))
    assert not rights.may()
    rights.world.do(SetAuthorization(added=(str(STRANGER),)))
    assert rights.may()
    rights.world.do(SetAuthorization(removed=(str(STRANGER),)))
    assert not rights.may()


def test_an_answer_is_kept_until_a_right_changes_and_for_one_principal(
    rights: Rights, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights.world.do(CreateAcls((READS_T,)))
    asked: list[Question] = []
    verdict = rights.authorizer.verdict
    monkeypatch.setattr(
        rights.authorizer,
        "verdict",
        lambda caller, question: (asked.append(question), verdict(caller, question))[1],
    )
    assert rights.may() and rights.may()
    assert len(asked) == 1
    rights.world.register(0)
    assert rights.may()
    assert len(asked) == 1, "a change of other metadata changes no right"
    rights.connection.principal = Principal("t")
    assert not rights.may()
    for number in range(VERDICTS_MAX + 10):
        rights.may(name=f"t{number}")
    assert len(rights.connection.verdicts.allowed) == VERDICTS_MAX


def test_ac16_a_client_of_ipv4_over_ipv6_is_one_of_ipv4(rights: Rights) -> None:
    rights.world.do(CreateAcls((replace(READS_T, host="10.0.0.9"),)))
    assert rights.may(connection=rights.connect(STRANGER, "::ffff:10.0.0.9"))
    assert rights.may(connection=rights.connect(STRANGER, "10.0.0.9"))
    assert not rights.may(connection=rights.connect(STRANGER, "::1"))
    assert plain_host("::ffff:1.2.3.4") == "1.2.3.4"


def test_some_topic_and_the_empty_name(rights: Rights) -> None:
    assert not rights.may(WRITE, None)
    rights.world.do(CreateAcls((allow(WRITE, TOPIC, "t"),)))
    assert rights.may(WRITE, None)
    assert not rights.may(WRITE, "")


def test_ac19_report_allows_and_counts(caplog: pytest.LogCaptureFixture) -> None:
    rights = Rights()
    rights.switch(REPORT)
    with caplog.at_level(logging.INFO, logger="siltstone.broker.security.authorizer"):
        assert rights.may()
    assert rights.measures.statistics().denied == {(1, False): 1}
    assert caplog.messages == [
        "would be denied User:s from 10.0.0.1: READ of FETCH on TOPIC 't': no ACL allows it"
    ]


def test_ob08_refusals_are_logged_a_hundred_a_second(
    rights: Rights, caplog: pytest.LogCaptureFixture
) -> None:
    denied = allow(READ, TOPIC, "t", permission=Permission.DENY)
    rights.world.do(CreateAcls((denied,)))
    with caplog.at_level(logging.INFO, logger="siltstone.broker.security.authorizer"):
        for _ in range(10_000):
            rights.may()
        assert len(caplog.messages) == DENIALS_LOGGED_PER_SECOND_MAX
        assert caplog.messages[0].endswith(f"by the ACL {denied}")
        rights.clock.advance_ms(1_000)
        rights.may()
        assert (
            caplog.messages[-2] == f"{10_000 - DENIALS_LOGGED_PER_SECOND_MAX} more refusals were not logged"
        )
        question = Question(READ, TOPIC, "t", is_named=False)
        count = len(caplog.messages)
        assert not rights.authorizer.may(rights.connection, ApiKey.METADATA, question)
        assert len(caplog.messages) == count, "what the client did not name is left out in silence"
    assert rights.measures.statistics().denied == {(1, True): 10_001}


def test_nd10_a_node_does_not_start_below_its_floor() -> None:
    refuse_weaker_mode(OFF, Authorization())
    refuse_weaker_mode(REPORT, Authorization(ON, ("User:root",)))
    with pytest.raises(AuthorizationTooWeak, match=r"siltstone authorization on --super-user User:NAME\)"):
        refuse_weaker_mode(ON, Authorization())
    with pytest.raises(AuthorizationTooWeak, match=r"is report: .*siltstone authorization on\)"):
        refuse_weaker_mode(ON, Authorization(REPORT, ("User:root",)))


def test_a_running_node_stays_at_its_floor(caplog: pytest.LogCaptureFixture) -> None:
    rights = Rights(floor=ON)
    rights.switch(ON)
    assert not rights.may()
    rights.world.do(SetAuthorization(OFF))
    assert not rights.may()
    assert "this node keeps to on" in caplog.text


def test_what_was_answered_is_known_until_any_right_changes(rights: Rights) -> None:
    asked = READ, TOPIC, "t"
    assert not rights.authorizer.is_known(rights.connection, asked), "False says nothing"
    assert not rights.may()
    assert not rights.authorizer.is_known(rights.connection, asked)
    rights.world.do(CreateAcls((READS_T,)))
    assert rights.may()
    assert rights.authorizer.is_known(rights.connection, asked)
    assert not rights.authorizer.is_known(rights.connection, (WRITE, TOPIC, "t"))
    rights.connection.principal = Principal("another")
    assert not rights.authorizer.is_known(rights.connection, asked)
    rights.connection.principal = STRANGER
    assert rights.authorizer.is_known(rights.connection, asked)
    rights.world.do(DeleteAcls((READS_T,)))
    assert not rights.authorizer.is_known(rights.connection, asked)
    rights.switch(OFF)
    assert rights.authorizer.is_known(rights.connection, asked), "everybody may do everything"
