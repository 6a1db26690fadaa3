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


class PrincipalAcls:
    """The bindings of one principal on one type of resources."""

    def __init__(self) -> None:
        self._literal: defaultdict[str, dict[AclBinding, None]] = defaultdict(dict)
        self._prefixed: defaultdict[str, dict[AclBinding, None]] = defaultdict(dict)
        self._lengths: Counter[int] = Counter()

    def __bool__(self) -> bool:
        return bool(self._literal or self._prefixed)

    def _named(self, binding: AclBinding) -> defaultdict[str, dict[AclBinding, None]]:
        return self._prefixed if binding.pattern_type is PatternType.PREFIXED else self._literal

    def add(self, binding: AclBinding) -> None:
        """Adds a binding, which may be there already."""
        bindings = self._named(binding)[binding.name]
        if binding.pattern_type is PatternType.PREFIXED and not bindings:
            self._lengths[len(binding.name)] += 1
        bindings[binding] = None

    def remove(self, binding: AclBinding) -> None:
        """Removes a binding, which is there."""
        named = self._named(binding)
        del named[binding.name][binding]
        if named[binding.name]:
            return
        del named[binding.name]
        if binding.pattern_type is PatternType.PREFIXED:
            self._lengths[len(binding.name)] -= 1
            self._lengths += Counter()  # drops what has become 0

    def fitting(self, name: str) -> Iterator[AclBinding]:
        """Yields the bindings whose patterns fit the name."""
        for literal in {name, WILDCARD}:
            yield from self._literal.get(literal, ())
        for length in self._lengths:
            if length <= len(name):
                yield from self._prefixed.get(name[:length], ())

    def everything(self) -> Iterator[AclBinding]:
        for named in (self._literal, self._prefixed):
            for bindings in named.values():
                yield from bindings


class AclIndex:
    """The bindings of a store by type, principal and name. It is changed in place, on the event loop."""

    def __init__(self, bindings: Iterable[AclBinding] = ()) -> None:
        self._of: defaultdict[tuple[AclResourceType, str], PrincipalAcls] = defaultdict(PrincipalAcls)
        for binding in bindings:
            self.add(binding)

    def add(self, binding: AclBinding) -> None:
        """Adds a binding, which may be there already."""
        self._of[binding.resource_type, binding.principal].add(binding)

    def remove(self, binding: AclBinding) -> None:
        """Removes a binding, which is there."""
        key = binding.resource_type, binding.principal
        self._of[key].remove(binding)
        if not self._of[key]:
            del self._of[key]

    def fitting(self, resource_type: AclResourceType, name: str) -> Iterator[AclBinding]:
        """Yields the bindings of all principals whose patterns fit the resource."""
        for (kind, _), acls in self._of.items():
            if kind is resource_type:
                yield from acls.fitting(name)

    def _of_caller(self, caller: Caller, resource_type: AclResourceType) -> Iterator[PrincipalAcls]:
        for principal in {caller.principal, EVERYBODY}:
            if (acls := self._of.get((resource_type, principal))) is not None:
                yield acls

    def verdict(
        self, caller: Caller, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> AclVerdict:
        fitting = (each for acls in self._of_caller(caller, resource_type) for each in acls.fitting(name))
        return verdict_of(fitting, caller, operation)

    def verdict_of_any(
        self, caller: Caller, operation: AclOperation, resource_type: AclResourceType
    ) -> AclVerdict:
        """Returns whether the caller may do the operation on at least one resource of the type, which need not exist
        [Kafka: Authorizer.authorizeByResourceType]."""
        everything = (each for acls in self._of_caller(caller, resource_type) for each in acls.everything())
        concerned = [each for each in everything if concerns(each, caller)]
        denying = [each for each in concerned if denies(each, operation)]
        decisive = next((each for each in denying if _is_everything(each)), None)
        if decisive is not None:
            return AclVerdict(False, decisive)
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
