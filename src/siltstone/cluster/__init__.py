"""Floor 8: what makes one cluster of several nodes on one store. Below the server, beside the stream engine.

The nouns: each node writes a *beat* once a second on the *lease board* (``metadata.leases``). A *life* of a node is
what one process does under one node epoch. A node is *suspect* when its beats in its present life have stood still for
a *session*. A live node then *fences* it in the metadata. A fenced node *resumes* when it finds out, unless another
node has *claimed* its failover.

The rule above all: leases only say when to look. What is acknowledged is protected by the exclusive possession of the
write-ahead log and by epochs, so a wrong suspicion costs time and no data (docs/decisions/0015-leases.md).

Reading order: ``suspicion`` (pure: which nodes have stopped beating, and whether others may suspect this node),
``membership`` (the loop of a node: beat, look, fence, resume), ``failovers`` (which node replays the log of a dead
one, and when), ``placing`` (other leaders for what a node that is gone or drained leads).
"""
