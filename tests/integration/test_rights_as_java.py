"""AC13: random bindings and questions, answered here as Java's StandardAuthorizer answers them.

The property test compares with a plain model, which the same people wrote. ``FUZZ_SEED`` replays a night.
"""

from collections.abc import Iterator
from random import Random

import pytest

from oracles.java_authorizer import JavaAuthorizer, running_java_authorizer
from siltstone.broker.security.acls.matching import AclIndex, Caller
from siltstone.model.acls import AclBinding, AclOperation, AclResourceType, PatternType, Permission
from support.kafka.kafka_oracles import or_skip
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly(tried="questions of rights beside Java"),
    pytest.mark.xdist_group("java-authorizer"),
]

TYPES = (AclResourceType.TOPIC, AclResourceType.GROUP)
NAMES = ("a", "ab", "abc", "b", "*", "ba", "A", "a.b", "ä")
PRINCIPALS = ("User:ada", "User:bob", "User:*", "Group:ada")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
OPERATIONS = tuple(each for each in AclOperation if each >= AclOperation.ALL)
ASKED = tuple(each for each in AclOperation if each > AclOperation.ALL)
PERMISSIONS = (Permission.DENY, Permission.ALLOW, Permission.ALLOW)
PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)
STORES = 300
BINDINGS_MAX = 12
QUESTIONS = 25
"""For each store; as many ask whether any resource at all may be written, which is all that brokers ask so."""


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAuthorizer]:
    with or_skip(running_java_authorizer) as running:
        yield running


def drawn(rng: Random) -> AclBinding:
    choices = (TYPES, PATTERNS, NAMES, PRINCIPALS, HOSTS, OPERATIONS, PERMISSIONS)
    return AclBinding(*(rng.choice(each) for each in choices))


def as_java(binding: AclBinding) -> tuple[str, str, str, str, str, str, str]:
    return (
        binding.resource_type.name, binding.name, binding.pattern_type.name, binding.principal, binding.host,
        binding.operation.name, binding.permission.name,
    )  # fmt: skip


@pytest.mark.timeout(600)
def test_ac13_random_bindings_answer_as_javas_authorizer(
    java: JavaAuthorizer, record_tried: RecordTried
) -> None:
    seed = seed_of_this_run("FUZZ_SEED")
    rng, answers = Random(seed), {True: 0, False: 0}
    for store in range(STORES):
        bindings = list(dict.fromkeys(drawn(rng) for _ in range(rng.randrange(1, BINDINGS_MAX))))
        index = AclIndex(bindings)
        java.load(map(as_java, bindings))
        for _ in range(QUESTIONS):
            user, host = rng.choice(("ada", "bob")), rng.choice(HOSTS[1:])
            operation, kind, name = rng.choice(ASKED), rng.choice(TYPES), rng.choice(NAMES)
            caller = Caller(f"User:{user}", host)
            ours = index.verdict(caller, operation, kind, name).is_allowed
            asked = (seed, store, bindings, user, host, operation, kind, name)
            assert ours == java.allows(user, host, operation.name, kind.name, name), asked
            ours_of_any = index.verdict_of_any(caller, AclOperation.WRITE, kind).is_allowed
            assert ours_of_any == java.allows_any(user, host, "WRITE", kind.name), asked
            answers[ours] += 1
            answers[ours_of_any] += 1
    assert min(answers.values()) > STORES, f"{answers}: the draw asks one kind of question only"
    record_tried("questions of rights", sum(answers.values()))
