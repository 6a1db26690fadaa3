"""Applies the records about users and their sessions to an image draft; ``applying`` has the others.

A user that is gone, and a principal whose sessions were ended, is noted with the version of that entry, and not by its
absence: a user of the same name may be back at once, and the sessions of the earlier one must end all the same.
"""

from collections.abc import Callable, Mapping
from typing import Any

from siltstone.metadata.image import ImageDraft
from siltstone.metadata.records import Record, ScramCredentialRemoved, ScramCredentialSet, SessionsEnded
from siltstone.metadata.users import ScramCredential, ScramUser
from siltstone.model.access import Principal, ScramMechanism


def _credential_set(draft: ImageDraft, record: ScramCredentialSet) -> None:
    mechanism = ScramMechanism(record.mechanism)
    credential = ScramCredential(mechanism, record.salt, record.stored_key, record.server_key, record.rounds)
    standing = draft.users.get(record.user)
    others = () if standing is None else _without(standing, mechanism)
    credentials = tuple(sorted((*others, credential), key=lambda each: each.mechanism))
    draft.users[record.user] = ScramUser(record.user, credentials)


def _credential_removed(draft: ImageDraft, record: ScramCredentialRemoved) -> None:
    left = _without(draft.users[record.user], ScramMechanism(record.mechanism))
    if left:
        draft.users[record.user] = ScramUser(record.user, left)
        return
    del draft.users[record.user]
    draft.ended_sessions[str(Principal(record.user))] = draft.version


def _without(user: ScramUser, mechanism: ScramMechanism) -> tuple[ScramCredential, ...]:
    return tuple(each for each in user.credentials if each.mechanism is not mechanism)


def _sessions_ended(draft: ImageDraft, record: SessionsEnded) -> None:
    draft.ended_sessions[record.principal] = draft.version


ACCESS_APPLIERS: Mapping[type[Record], Callable[[ImageDraft, Any], None]] = {
    ScramCredentialSet: _credential_set,
    ScramCredentialRemoved: _credential_removed,
    SessionsEnded: _sessions_ended,
}
