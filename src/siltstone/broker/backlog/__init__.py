"""Backlogs: what consumer groups have not read yet of the topics that keep their data for them.

A group is *registered* with a topic if the topic names it in ``siltstone.retention.groups``. Its *progress* is its
committed offsets as the metadata has them. With ``siltstone.retention.ack`` retention waits for the registered groups:
it deletes only what is before the progress of all of them. A group that was deleted is *let go*: retention does not
wait for it until it exists again, with members or a commit (docs/retention.md).

``positions`` knows which groups are registered and asks the coordinators for their durable offsets;
``progress_mirror`` writes these into the metadata. ``quota_rules`` measures backlogs and says what to do about one
that is over its quota; ``quota_check`` applies the rules to all topics. Its ``verdicts`` tell Produce to hold or refuse
records; ``moving`` moves groups forward. ``time_to_live`` moves groups past records that are too old. ``backlog`` runs
all of this periodically. Read next: ``positions``.
"""
