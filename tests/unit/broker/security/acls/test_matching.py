"""What bindings allow, by examples; ``tests/property/broker/test_acls.py`` has the rule as a plain model."""

from msgspec.structs import replace

from siltstone.broker.security.acls.matching import AclIndex, Caller
from siltstone.model.acls import AclBinding, AclOperation, AclResourceType, PatternType, Permission
from support.processes.calls_counted import calls_counted

TOPIC = AclResourceType.TOPIC
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ADA = Caller("User:ada", "10.0.0.1")
ALLOWED = AclBinding(TOPIC, PatternType.LITERAL, "a", "User:ada", "*", READ, Permission.ALLOW)


def _allows(operation: AclOperation, name: str, *bindings: AclBinding, caller: Caller = ADA) -> bool:
    return AclIndex(bindings).verdict(caller, operation, TOPIC, name).is_allowed


def test_ac02_a_literal_binding_is_for_one_name_and_implies_describe() -> None:
    assert _allows(READ, "a", ALLOWED)
    assert not _allows(READ, "ab", ALLOWED)
    assert _allows(DESCRIBE, "a", ALLOWED)
    assert not _allows(WRITE, "a", ALLOWED)
    assert not _allows(READ, "a")


def test_ac03_a_denial_implies_nothing_and_goes_before_a_permission() -> None:
    denied = replace(ALLOWED, permission=Permission.DENY, name="*")
    described = replace(ALLOWED, operation=DESCRIBE)
    assert not _allows(READ, "a", ALLOWED, denied)
    assert _allows(DESCRIBE, "a", described, denied)
    assert not _allows(DESCRIBE, "a", described, replace(denied, operation=AclOperation.ALL))


def test_ac05_a_resource_without_bindings_is_closed_to_everybody() -> None:
    """Kafka's allow.everyone.if.no.acl.found does not exist: a forgotten ACL would open a topic."""
    of_another = replace(ALLOWED, principal="User:bob")
    assert not _allows(READ, "a")
    assert not _allows(READ, "a", of_another)
    assert not _allows(READ, "b", of_another)


def test_ac16_a_host_and_everybody() -> None:
    here = replace(ALLOWED, principal="User:*", host="10.0.0.1")
    assert _allows(READ, "a", here)
    assert not _allows(READ, "a", here, caller=Caller("User:ada", "10.0.0.2"))
    assert not _allows(READ, "a", replace(ALLOWED, principal="Group:ada"))


def test_an_index_forgets_what_is_removed() -> None:
    prefixed = replace(ALLOWED, pattern_type=PatternType.PREFIXED)
    index = AclIndex((ALLOWED, prefixed, prefixed))
    assert index.verdict(ADA, READ, TOPIC, "ab").binding == prefixed
    index.remove(prefixed)
    assert not index.verdict(ADA, READ, TOPIC, "ab").is_allowed
    assert index.verdict(ADA, READ, TOPIC, "a").binding == ALLOWED
    index.remove(ALLOWED)
    assert not list(index.fitting(TOPIC, "a"))


def test_ac08_any_topic() -> None:
    prefix = replace(ALLOWED, pattern_type=PatternType.PREFIXED, name="x", operation=WRITE)
    literal = replace(ALLOWED, operation=WRITE)

    def may(*bindings: AclBinding) -> bool:
        return AclIndex(bindings).verdict_of_any(ADA, WRITE, TOPIC).is_allowed

    def denied(binding: AclBinding) -> AclBinding:
        return replace(binding, permission=Permission.DENY)

    assert may(literal)
    assert may(prefix)
    assert not may()
    assert not may(prefix, denied(prefix))
    assert not may(literal, denied(literal))
    assert not may(literal, denied(replace(literal, name="*")))
    assert may(replace(literal, name="*"), denied(prefix))
    assert not may(replace(literal, name="xy"), denied(prefix))
    assert may(prefix, denied(literal))


def test_ac15_a_question_costs_the_same_among_a_hundred_thousand_bindings() -> None:
    """Each of a thousand users has bindings of its own, literal ones and prefixes."""
    counts = []
    for users in (1, 1_000):
        patterns = (PatternType.LITERAL, PatternType.PREFIXED)
        index = AclIndex(
            AclBinding(
                TOPIC, patterns[number % 2], f"topic-{number}", f"User:{user}", "*", READ, Permission.ALLOW
            )
            for user in range(users)
            for number in range(100)
        )
        with calls_counted() as calls:
            assert not index.verdict(Caller("User:ada", "h"), READ, TOPIC, "topic-7-of-another").is_allowed
            assert index.verdict(Caller("User:0", "h"), READ, TOPIC, "topic-7-of-another").is_allowed
        counts.append(len(calls))
    assert counts[0] == counts[1]
