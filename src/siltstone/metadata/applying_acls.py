"""Applies the records about authorization to an image draft; ``applying`` has the others.

A binding that is created twice, or deleted while it is absent, contradicts the image: one that is lost unseen would be
a permission, or a denial, that nobody knows of (CVE-2024-27309).
"""

from collections.abc import Callable, Mapping
from typing import Any

from siltstone.metadata.image import ImageDraft
from siltstone.metadata.records import AclsCreated, AclsDeleted, AuthorizationSet, Record
from siltstone.model.acls import Authorization


def _acls_created(draft: ImageDraft, record: AclsCreated) -> None:
    for binding in record.bindings:
        assert binding.key not in draft.acls, f"the ACL exists already: {binding}"
        draft.acls[binding.key] = binding


def _acls_deleted(draft: ImageDraft, record: AclsDeleted) -> None:
    for binding in record.bindings:
        del draft.acls[binding.key]


def _authorization_set(draft: ImageDraft, record: AuthorizationSet) -> None:
    draft.authorization = Authorization(record.mode, record.super_users)


ACL_APPLIERS: Mapping[type[Record], Callable[[ImageDraft, Any], None]] = {
    AclsCreated: _acls_created,
    AclsDeleted: _acls_deleted,
    AuthorizationSet: _authorization_set,
}
