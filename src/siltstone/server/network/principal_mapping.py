"""Makes the principal of a client from the name of its certificate's owner, by rules as Kafka's. Pure.

    listener.NAME.tls_principal_mapping_rules = RULE:^CN=(.*?),OU=dev.*$/$1/L,DEFAULT

The first rule whose pattern matches the whole name wins. ``RULE:pattern/replacement/`` takes groups as ``$1``, with
``L`` or ``U`` behind it in lower or upper case; a slash within it is written ``\\/``. ``DEFAULT`` takes the name as it
is. A certificate that no rule fits belongs to nobody, and its client is refused [Kafka:
ssl.principal.mapping.rules].

The package re2 matches the patterns (decision 59): its time grows with the length of the name. Python's ``re`` takes a
minute for a pattern of five ``(.*?)`` and a name of 800 characters, and nobody is answered meanwhile. An authority
signs what its clients ask for, so a name is as little to be trusted as any other bytes of a client.
"""

import re

import msgspec
import re2

from siltstone.model.access import RESERVED_USERS, Principal
from siltstone.model.errors import InvalidRequest

OWNER_NAME_CHARACTERS_MAX = 4096
"""The time of a match grows with the length of the name; people's names have a hundred."""

DEFAULT = "DEFAULT"

_PART = r"(?:\\.|[^\\/])*"
_RULE = re.compile(
    rf"RULE:(?P<pattern>{_PART})/(?P<replacement>{_PART})/(?P<letters>[LU]?)|(?P<default>DEFAULT)"
)
_GAP = re.compile(r"\s*(?:,\s*|$)")
_GROUP = re.compile(r"\$(\d)")


class InvalidMappingRule(InvalidRequest):
    """A rule for the principals of certificates is not written as one, or its pattern is wrong."""


class NoPrincipal(InvalidRequest):
    """No rule fits the certificate of a client."""


class MappingRule(msgspec.Struct, frozen=True):
    """``pattern`` None: the rule takes every name as it is."""

    pattern: "re2._Regexp | None" = None
    replacement: str = ""
    letters: str = ""

    def name_of(self, owner: str) -> str | None:
        """Returns the name of the principal; None if the rule does not fit."""
        if self.pattern is None:
            return owner
        if (found := self.pattern.fullmatch(owner)) is None:
            return None
        name = _GROUP.sub(lambda group: found[int(group[1])] or "", self.replacement)
        return name.lower() if self.letters == "L" else name.upper() if self.letters == "U" else name


def parse_mapping_rules(text: str) -> tuple[MappingRule, ...]:
    """Raises InvalidMappingRule."""
    rules: list[MappingRule] = []
    position = len(text) - len(text.lstrip())
    while position < len(text):
        found = _RULE.match(text, position)
        gap = None if found is None else _GAP.match(text, found.end())
        if found is None or gap is None:
            raise InvalidMappingRule(
                f"{text[position:]!r} does not begin with a rule: write RULE:pattern/replacement/ with L or U behind "
                "it, or DEFAULT, and commas between them"
            )
        rules.append(_rule(found))
        position = gap.end()
    if not rules:
        raise InvalidMappingRule("there is no rule: write at least DEFAULT")
    return tuple(rules)


def _rule(found: re.Match[str]) -> MappingRule:
    if found["default"]:
        return MappingRule()
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(found["pattern"], options=options)
    except re2.error as wrong:
        (reason,) = wrong.args
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise InvalidMappingRule(
            f"the pattern {found['pattern']!r} is wrong: {said}; look-around and references back are not known here"
        ) from wrong
    replacement = re.sub(r"\\(.)", r"\1", found["replacement"])
    if missing := [group for group in _GROUP.findall(replacement) if int(group) > pattern.groups]:
        raise InvalidMappingRule(f"the pattern {found['pattern']!r} has no group ${missing[0]}")
    return MappingRule(pattern, replacement, found["letters"])


def principal_of(owner: str, rules: tuple[MappingRule, ...]) -> Principal:
    """Returns the principal of a certificate by the name of its owner. Raises NoPrincipal."""
    if len(owner) > OWNER_NAME_CHARACTERS_MAX:
        raise NoPrincipal(
            f"the name in the client's certificate has {len(owner)} characters, and {OWNER_NAME_CHARACTERS_MAX} is "
            "the most"
        )
    name = next((name for rule in rules if (name := rule.name_of(owner)) is not None), None)
    if not name:
        raise NoPrincipal(
            f"no rule of tls_principal_mapping_rules makes a name of the client's certificate, {owner[:200]!r}"
        )
    if name.startswith(RESERVED_USERS):
        raise NoPrincipal(
            f"tls_principal_mapping_rules make {name[:200]!r} of the client's certificate, and names that begin with "
            f"{RESERVED_USERS} are those of nodes"
        )
    return Principal(name)
