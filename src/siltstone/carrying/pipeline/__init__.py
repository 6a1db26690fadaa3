"""One pipeline for every kind of maintenance: image → plan → job → tasks → a commit for each unit → report.

``kind`` (the words and the ports), ``watch`` (progress, cancelling, time limit), ``running`` (one run of one kind),
``driver`` (several kinds, one after another), ``set_aside`` (units that failed, when they are tried again, and when
each kind last ran), ``schedule`` (when a kind is due).
"""
