"""Finds bindings by a filter, and says what is wrong with a binding or a filter that a client sends.

Kafka's AclBindingFilter and AclControlManager have the rules. A filter of the pattern type MATCH finds what applies to
the resource of its name: the literal name, the literal ``*`` and every prefix of the name.
"""

from collections.abc import Iterable

from siltstone.model.acls import (
    WILDCARD,
    AclBinding,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
)


def found_by(asked: AclFilter, bindings: Iterable[AclBinding]) -> list[AclBinding]:
    """Returns the bindings that the filter finds, sorted."""
    return sorted(each for each in bindings if matches(asked, each))


def matches(asked: AclFilter, binding: AclBinding) -> bool:
    return (
        asked.resource_type in (AclResourceType.ANY, binding.resource_type)
        and asked.operation in (AclOperation.ANY, binding.operation)
        and asked.permission in (Permission.ANY, binding.permission)
        and asked.principal in (None, binding.principal)
        and asked.host in (None, binding.host)
        and _pattern_matches(asked, binding)
    )


def _pattern_matches(asked: AclFilter, binding: AclBinding) -> bool:
    if asked.pattern_type not in (PatternType.ANY, PatternType.MATCH, binding.pattern_type):
        return False
    if asked.name is None or asked.name == binding.name:
        return True
    if asked.pattern_type is not PatternType.MATCH:
        return False
    if binding.pattern_type is PatternType.LITERAL:
        return binding.name == WILDCARD
    return asked.name.startswith(binding.name)


def why_unfit(asked: AclFilter) -> str | None:
    """Says why a filter is refused: it has a number that is not known. None: it is not refused."""
    unknown = [
        what
        for what, number in (
            ("resource type", asked.resource_type),
            ("pattern type", asked.pattern_type),
            ("operation", asked.operation),
            ("permission", asked.permission),
        )
        if number == 0
    ]
    return f"the filter has an unknown {unknown[0]}" if unknown else None
