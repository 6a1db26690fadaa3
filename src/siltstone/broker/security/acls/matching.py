"""Answers whether the bindings of a store allow an operation, as Kafka's StandardAuthorizer does.

A binding counts if its pattern fits the resource, its principal is the caller or everybody, and its host is the
caller's or any. One that denies the operation, or ALL, decides; else one that allows the operation, or ALL, or an
operation that implies it; else the answer is no. A denial implies nothing: who is denied READ may still DESCRIBE.

``AclIndex`` finds the bindings by their names, so that a question costs what fits, not what there is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from siltstone.model.acls import (
    EVERYBODY,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
)

IMPLIED_BY: dict[AclOperation, frozenset[AclOperation]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
"""AclOperation → the operations whose permission includes it."""

_NONE: frozenset[AclOperation] = frozenset()


class Caller(msgspec.Struct, frozen=True):
    """``principal`` with its type, such as ``User:ada``; ``host`` is an address."""

    principal: str
    host: str


class AclVerdict(msgspec.Struct, frozen=True):
    """``binding`` is the one that decided; None: none allows it."""

    is_allowed: bool
    binding: AclBinding | None = None


DENIED_BY_DEFAULT = AclVerdict(False)


def concerns(binding: AclBinding, caller: Caller) -> bool:
    return binding.principal in (caller.principal, EVERYBODY) and binding.host in (caller.host, WILDCARD)


def denies(binding: AclBinding, operation: AclOperation) -> bool:
    return binding.permission is Permission.DENY and binding.operation in (operation, AclOperation.ALL)


def allows(binding: AclBinding, operation: AclOperation) -> bool:
    return binding.permission is Permission.ALLOW and (
        binding.operation in (operation, AclOperation.ALL)
        or binding.operation in IMPLIED_BY.get(operation, _NONE)
    )


def verdict_of(fitting: Iterable[AclBinding], caller: Caller, operation: AclOperation) -> AclVerdict:
    """Returns the verdict of the bindings whose patterns fit the resource."""
    allowing: AclBinding | None = None
    for binding in fitting:
        if concerns(binding, caller):
            if denies(binding, operation):
                return AclVerdict(False, binding)
            if allowing is None and allows(binding, operation):
                allowing = binding
    return DENIED_BY_DEFAULT if allowing is None else AclVerdict(True, allowing)


class AclIndex:
    """The bindings of a store by type and name. It is changed in place, on the event loop."""

    def __init__(self, bindings: Iterable[AclBinding] = ()) -> None:
        self._literal: defaultdict[tuple[AclResourceType, str], dict[AclBinding, None]] = defaultdict(dict)
        self._prefixed: defaultdict[tuple[AclResourceType, str], dict[AclBinding, None]] = defaultdict(dict)
        self._lengths: defaultdict[AclResourceType, Counter[int]] = defaultdict(Counter)
        for binding in bindings:
            self.add(binding)

    def add(self, binding: AclBinding) -> None:
        """Adds a binding, which may be there already."""
        bindings = self._place_of(binding)
        if binding not in bindings:
            bindings[binding] = None
            if binding.pattern_type is PatternType.PREFIXED:
                self._lengths[binding.resource_type][len(binding.name)] += 1

    def remove(self, binding: AclBinding) -> None:
        """Removes a binding, which is there."""
        bindings = self._place_of(binding)
        del bindings[binding]
        if binding.pattern_type is PatternType.PREFIXED:
            lengths = self._lengths[binding.resource_type]
            lengths[len(binding.name)] -= 1
            lengths += Counter()  # drops what has become 0
        if not bindings:
            del self._table_of(binding)[binding.resource_type, binding.name]

    def _place_of(self, binding: AclBinding) -> dict[AclBinding, None]:
        return self._table_of(binding)[binding.resource_type, binding.name]

    def _table_of(
        self, binding: AclBinding
    ) -> defaultdict[tuple[AclResourceType, str], dict[AclBinding, None]]:
        return self._prefixed if binding.pattern_type is PatternType.PREFIXED else self._literal

    def fitting(self, resource_type: AclResourceType, name: str) -> Iterator[AclBinding]:
        """Yields the bindings whose patterns fit the resource."""
        for literal in {name, WILDCARD}:
            yield from self._literal.get((resource_type, literal), ())
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), ())

    def of_type(self, resource_type: AclResourceType) -> Iterator[AclBinding]:
        for table in (self._literal, self._prefixed):
            for (kind, _), bindings in table.items():
                if kind is resource_type:
                    yield from bindings

    def verdict(
        self, caller: Caller, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> AclVerdict:
        return verdict_of(self.fitting(resource_type, name), caller, operation)

    def verdict_of_any(
        self, caller: Caller, operation: AclOperation, resource_type: AclResourceType
    ) -> AclVerdict:
        """Returns whether the caller may do the operation on at least one resource of the type, which need not exist
        [Kafka: Authorizer.authorizeByResourceType]."""
        concerned = [each for each in self.of_type(resource_type) if concerns(each, caller)]
        denying = [each for each in concerned if denies(each, operation)]
        everything = next((each for each in denying if _is_everything(each)), None)
        if everything is not None:
            return AclVerdict(False, everything)
        literals = {each.name for each in denying if each.pattern_type is PatternType.LITERAL}
        prefixes = tuple(each.name for each in denying if each.pattern_type is PatternType.PREFIXED)
        for binding in concerned:
            if allows(binding, operation) and (
                _is_everything(binding)
                or not (
                    binding.name.startswith(prefixes)
                    or (binding.pattern_type is PatternType.LITERAL and binding.name in literals)
                )
            ):
                return AclVerdict(True, binding)
        return DENIED_BY_DEFAULT


def _is_everything(binding: AclBinding) -> bool:
    return binding.pattern_type is PatternType.LITERAL and binding.name == WILDCARD
