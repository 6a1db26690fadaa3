"""The mechanism SILTSTONE-NODE, without I/O: two nodes of a store prove to each other who they are.

    caller    claim      its life, the node that it means and that node's epoch, 32 random bytes
    answerer  challenge  32 random bytes
    caller    proof      HMAC-SHA256 over label, claim, challenge and channel, by the secret of the caller's life
    answerer  proof      the same, under a label of its own

The secret is on the lease board, which nodes read and clients do not. A program that relays the messages of another
connection fails at the *channel*: the hash of the certificate of the listener. So the two need no authority in common.
Without TLS the channel is empty, and a network that changes what it carries can take a proved connection over.
"""

import hmac
from collections.abc import Callable

import msgspec

from siltstone.broker.security.sasl.plain import TokenRefused
from siltstone.metadata.entities import NodeLife
from siltstone.model.errors import InvalidRequest
from siltstone.model.secret import Secret

VERSION = 1
NONCE_BYTES = 32
CLAIM_BYTES_MAX = 1_024
_CALLER, _ANSWERER = "siltstone node, caller", "siltstone node, answerer"


class NodeClaim(msgspec.Struct, frozen=True, array_like=True):
    """The first message of a caller, as MessagePack."""

    version: int
    caller_id: int
    caller_epoch: int
    incarnation: str
    answerer_id: int
    answerer_epoch: int
    nonce: bytes

    @property
    def caller(self) -> NodeLife:
        return NodeLife(self.caller_id, self.caller_epoch, self.incarnation)


class AnswererNotProved(InvalidRequest):
    """Whatever answered at the address of a node does not know the secret of the node that called it."""


def _proof(secret: Secret, label: str, claim: bytes, challenge: bytes, channel: bytes) -> bytes:
    said = msgspec.msgpack.encode((label, claim, challenge, channel))
    return hmac.digest(bytes.fromhex(secret.revealed()), said, "sha256")


class NodeCall:
    """The caller's side of one proof. ``nonce``: NONCE_BYTES random bytes."""

    def __init__(
        self,
        caller: NodeLife,
        secret: Secret,
        answerer_id: int,
        answerer_epoch: int,
        nonce: bytes,
        channel: bytes,
    ) -> None:
        self._secret = secret
        self._channel = channel
        self._challenge = b""
        self.claim = msgspec.msgpack.encode(
            NodeClaim(
                VERSION,
                caller.node_id,
                caller.node_epoch,
                caller.incarnation,
                answerer_id,
                answerer_epoch,
                nonce,
            )
        )

    def proof(self, challenge: bytes) -> bytes:
        """Returns the answer to a challenge. Raises AnswererNotProved."""
        if len(challenge) != NONCE_BYTES:
            raise AnswererNotProved(f"its challenge has {len(challenge)} bytes instead of {NONCE_BYTES}")
        self._challenge = challenge
        return _proof(self._secret, _CALLER, self.claim, challenge, self._channel)

    def check(self, token: bytes) -> None:
        """Looks at the proof of the answerer. Raises AnswererNotProved."""
        expected = _proof(self._secret, _ANSWERER, self.claim, self._challenge, self._channel)
        if not hmac.compare_digest(token, expected):
            raise AnswererNotProved(
                "its proof is wrong: it is no node of this store, or something stands between"
            )


class NodeExchange:
    """The answerer's side of one proof: ``claimed``, ``challenge``, ``final``. ``own``: the life of the answerer;
    ``secret_of`` returns the secret of a life that may call. A life without one fails at the end."""

    def __init__(
        self, own: NodeLife, secret_of: Callable[[NodeLife], Secret | None], challenge: bytes, channel: bytes
    ) -> None:
        self._own = own
        self._secret_of = secret_of
        self._channel = channel
        self._claim = b""
        self.challenge = challenge
        self.caller: NodeLife | None = None
        """The life that the caller claims; None before its first message."""

    @property
    def user(self) -> str:
        return "" if self.caller is None else f"node {self.caller.node_id}"

    def claimed(self, token: bytes) -> NodeLife:
        """Returns the life that the caller claims. Raises TokenRefused."""
        if len(token) > CLAIM_BYTES_MAX:
            raise TokenRefused(f"the claim has {len(token)} bytes, and {CLAIM_BYTES_MAX} is the most")
        try:
            claim = msgspec.msgpack.decode(token, type=NodeClaim)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise TokenRefused("the claim is not one of a node") from None
        if claim.version != VERSION or len(claim.nonce) != NONCE_BYTES:
            raise TokenRefused("the claim is of another version of the mechanism, or its nonce is too short")
        if (claim.answerer_id, claim.answerer_epoch) != (self._own.node_id, self._own.node_epoch):
            raise TokenRefused(f"it means node {claim.answerer_id} in epoch {claim.answerer_epoch}")
        if claim.caller_id == self._own.node_id:
            raise TokenRefused("it claims to be this node itself")
        self._claim, self.caller = token, claim.caller
        return claim.caller

    def final(self, token: bytes) -> bytes:
        """Looks at the proof of the caller; returns that of the answerer. Raises TokenRefused."""
        assert self.caller is not None
        secret = self._secret_of(self.caller)
        if secret is None:
            raise TokenRefused(
                "there is no live node with this epoch and incarnation, or its secret is not known yet"
            )
        if not hmac.compare_digest(
            token, _proof(secret, _CALLER, self._claim, self.challenge, self._channel)
        ):
            raise TokenRefused("the proof is wrong")
        return _proof(secret, _ANSWERER, self._claim, self.challenge, self._channel)
