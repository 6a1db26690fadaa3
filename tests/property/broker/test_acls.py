"""Authorization against a plain model: all bindings are read for each question, in Kafka's words."""

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.security.acls.filters import found_by
from siltstone.broker.security.acls.matching import AclIndex, Caller
from siltstone.model.acls import AclBinding, AclFilter, AclOperation, AclResourceType, PatternType, Permission
from support.values.examples import examples

TYPES = st.sampled_from([AclResourceType.TOPIC, AclResourceType.GROUP])
NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "ba"])
PRINCIPALS = st.sampled_from(["User:ada", "User:bob", "User:*", "Group:ada"])
HOSTS = st.sampled_from(["*", "10.0.0.1", "10.0.0.2"])
OPERATIONS = st.sampled_from([each for each in AclOperation if each >= AclOperation.ALL])
ASKED = st.sampled_from([each for each in AclOperation if each > AclOperation.ALL])
BINDINGS = st.lists(
    st.builds(
        AclBinding,
        TYPES,
        st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
        NAMES,
        PRINCIPALS,
        HOSTS,
        OPERATIONS,
        st.sampled_from([Permission.DENY, Permission.ALLOW, Permission.ALLOW]),
    ),
    max_size=12,
)
CALLERS = st.builds(
    Caller, st.sampled_from(["User:ada", "User:bob"]), st.sampled_from(["10.0.0.1", "10.0.0.2"])
)

INCLUDES = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def _fits(binding: AclBinding, kind: AclResourceType, name: str) -> bool:
    if binding.resource_type != kind:
        return False
    if binding.pattern_type == PatternType.PREFIXED:
        return name[: len(binding.name)] == binding.name
    return binding.name in (name, "*")


def _is_for(binding: AclBinding, caller: Caller) -> bool:
    return binding.principal in ("User:*", caller.principal) and binding.host in ("*", caller.host)


def _model(
    bindings: list[AclBinding], caller: Caller, operation: AclOperation, kind: AclResourceType, name: str
) -> bool:
    mine = [each for each in bindings if _fits(each, kind, name) and _is_for(each, caller)]
    denied = {each.operation for each in mine if each.permission == Permission.DENY}
    allowed = {each.operation for each in mine if each.permission == Permission.ALLOW}
    wanted = {operation, AclOperation.ALL} | INCLUDES.get(operation, set())
    return not denied & {operation, AclOperation.ALL} and bool(allowed & wanted)


@settings(max_examples=examples(1_000))
@given(BINDINGS, st.lists(st.integers(0, 11), max_size=6), CALLERS, ASKED, TYPES, NAMES)
def test_ac13_an_index_that_is_changed_answers_as_the_plain_model(
    bindings: list[AclBinding],
    removed: list[int],
    caller: Caller,
    operation: AclOperation,
    kind: AclResourceType,
    name: str,
) -> None:
    index = AclIndex(bindings)
    left = list(dict.fromkeys(bindings))
    for number in removed:
        if number < len(left):
            index.remove(left.pop(number))
    assert index.verdict(caller, operation, kind, name).is_allowed == _model(
        left, caller, operation, kind, name
    )


def _model_of_any(bindings: list[AclBinding], caller: Caller) -> bool:
    """Tries every name that bindings speak of, and longer ones, which no literal binding equals."""
    topics = [each for each in bindings if each.resource_type == AclResourceType.TOPIC]
    names = {each.name for each in topics if each.name != "*"}
    tried = names | {f"{each.name}-made-up" for each in topics} | {"made-up"}
    return any(_model(bindings, caller, AclOperation.WRITE, AclResourceType.TOPIC, name) for name in tried)


@settings(max_examples=examples(500))
@given(BINDINGS, CALLERS)
def test_ac13_some_topic_can_be_written_if_one_of_all_names_can(
    bindings: list[AclBinding], caller: Caller
) -> None:
    """A prefixed ``*`` is a prefix like another one, and left out here, because the names above have no star."""
    plain = [each for each in bindings if each.name != "*" or each.pattern_type == PatternType.LITERAL]
    found = AclIndex(plain).verdict_of_any(caller, AclOperation.WRITE, AclResourceType.TOPIC)
    assert found.is_allowed == _model_of_any(plain, caller)


@settings(max_examples=examples(300))
@given(BINDINGS, TYPES, NAMES)
def test_ac11_match_finds_what_applies_to_a_resource(
    bindings: list[AclBinding], kind: AclResourceType, name: str
) -> None:
    found = found_by(AclFilter(kind, PatternType.MATCH, name), dict.fromkeys(bindings))
    assert found == sorted({each for each in bindings if _fits(each, kind, name)})
