"""Floor 6: how a plan is carried out, whatever its kind: job, tasks, commit, report.

Words. A *kind* of maintenance makes a *plan* from the image; a plan has *units*, each committed by itself, each with
a reason. A *job* is the durable decision to carry a plan out; an *attempt* is a plan being carried out now. A *run*
is one plan of one kind, carried out; a *driver* does one run after another.

Flow: image → plan → job → tasks on a runner → a commit for each unit → report.

Reading order: ``pipeline.kind`` (what a kind is), ``pipeline.running`` (one run), ``jobs`` (one driver at a time),
``engine`` (the steps of all kinds that make objects), ``committing`` (ids, copies, commit), ``outcomes`` (done, refused
or unknown).
"""
