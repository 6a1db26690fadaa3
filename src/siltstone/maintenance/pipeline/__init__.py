"""One pipeline for every kind of maintenance: image → plan → job → tasks → a commit for each unit → report.

``kind`` (what a kind of maintenance is), ``scope`` (what is asked for), ``watch`` (progress, cancelling, time),
``running`` (carrying a plan out), ``set_aside`` (units that failed, and when they are tried again), ``kinds`` (the
table of them).
"""
