"""AlterUserScramCredentials: sets and removes the credentials with which users log in by SCRAM.

The client sends the *salted password*, which is as good as the password. What is kept is made of it at once, and
nothing of it is logged or quoted in an error. Over a network without TLS it is refused, unlike by Kafka. Each user is
answered for itself, and a user that is refused holds up no other. A request changes one credential of a user, as in
Kafka: a second change refuses both (92), unless the first one is refused for a reason of its own.
"""

from collections import defaultdict

from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import ConnectionContext, RequestContext
from siltstone.foundation.credentials import is_this_machine
from siltstone.foundation.scram import keys_of
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from siltstone.metadata.decisions.users import check_credential, check_name
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.users import AlterUsers, ScramCredential
from siltstone.model.access import ScramMechanism
from siltstone.model.errors import InvalidRequest, SiltstoneError

Change = ScramCredentialDeletion | ScramCredentialUpsertion


class UserRefused(InvalidRequest):
    """The changes of one user are refused, with the code of the answer."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


async def handle_alter_user_scram_credentials(
    parts: BrokerParts, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    changes: dict[str, list[Change]] = defaultdict(list)
    for deletion in request.deletions:
        changes[deletion.name].append(deletion)
    for upsertion in request.upsertions:
        changes[upsertion.name].append(upsertion)
    refused: dict[str, UserRefused] = {}
    removals: list[tuple[str, ScramMechanism]] = []
    credentials: list[tuple[str, ScramCredential]] = []
    for name, each in changes.items():
        try:
            checked = _checked(context.connection, name, each[0])
            _require_one(parts, name, checked, each)
        except UserRefused as refusal:
            refused[name] = refusal
            continue
        if isinstance(checked, ScramCredential):
            credentials.append((name, checked))
        else:
            removals.append((name, checked))
    if removals or credentials:
        try:
            missing = await parts.metadata.execute(AlterUsers(tuple(removals), tuple(credentials)))
        except SiltstoneError as failure:
            code, words = error_code(failure), error_message(failure)
            refused |= {name: UserRefused(code, words) for name in changes if name not in refused}
        else:
            refused |= {name: _not_there(name) for name in missing}
    return AlterUserScramCredentialsResponse(results=[_result(name, refused.get(name)) for name in changes])


def _result(name: str, refusal: UserRefused | None) -> AlterUserScramCredentialsResult:
    if refusal is None:
        return AlterUserScramCredentialsResult(user=name, error_message=None)
    return AlterUserScramCredentialsResult(user=name, error_code=refusal.code, error_message=str(refusal))


def _not_there(name: str) -> UserRefused:
    return UserRefused(
        ErrorCode.RESOURCE_NOT_FOUND, f"user {name!r} has no such credential: describe its credentials first"
    )


def _checked(connection: ConnectionContext, name: str, change: Change) -> ScramMechanism | ScramCredential:
    """Returns the credential that is set, or the mechanism of the one that is removed. Raises UserRefused."""
    try:
        check_name(name)
    except Refusal as refusal:
        raise UserRefused(ErrorCode.UNACCEPTABLE_CREDENTIAL, str(refusal)) from refusal
    mechanism = _mechanism(change.mechanism)
    if isinstance(change, ScramCredentialDeletion):
        return mechanism
    return _credential(connection, name, mechanism, change)


def _require_one(
    parts: BrokerParts, name: str, checked: ScramMechanism | ScramCredential, changes: list[Change]
) -> None:
    """Raises UserRefused if the request changes more than one credential of the user."""
    if len(changes) == 1:
        return
    if isinstance(checked, ScramMechanism):
        user = parts.metadata.image.users.get(name)
        if user is None or all(each.mechanism is not checked for each in user.credentials):
            raise _not_there(name)
    raise UserRefused(
        ErrorCode.DUPLICATE_RESOURCE,
        f"a request changes one credential of a user, and this one has {len(changes)} of user {name!r}: "
        "send a request for each",
    )


def _mechanism(number: int) -> ScramMechanism:
    try:
        return ScramMechanism(number)
    except ValueError:
        raise UserRefused(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"{number} is no mechanism of SCRAM: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512",
        ) from None


def _credential(
    connection: ConnectionContext, name: str, mechanism: ScramMechanism, change: ScramCredentialUpsertion
) -> ScramCredential:
    if not (connection.listener.protocol.is_encrypted or is_this_machine(connection.client_host)):
        raise UserRefused(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "a salted password, which is as good as the password, is not taken from another machine without TLS: use a "
            "listener with TLS, or siltstone users on the store",
        )
    if not change.salted_password:
        raise UserRefused(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"user {name!r} has an empty password")
    keys = keys_of(mechanism.algorithm, bytes(change.salted_password))
    credential = ScramCredential(
        mechanism, bytes(change.salt), keys.stored_key, keys.server_key, change.iterations
    )
    try:
        check_credential(name, credential)
    except Refusal as refusal:
        raise UserRefused(ErrorCode.UNACCEPTABLE_CREDENTIAL, str(refusal)) from refusal
    return credential
