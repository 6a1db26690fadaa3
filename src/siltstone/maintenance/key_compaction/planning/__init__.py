"""Which compacted streams are to be cleaned, how far, and why: pure functions of the image and the time.

In this order: ``prefix`` (what can be read: the stream objects a stream begins with), ``bound`` (how far it may be
compacted), ``dirtiness`` (how much of that is new), ``planner`` (which are worth it, dirtiest first). What comes out
are ``stream_plan.StreamPlan``; ``waves`` gives them to the runner in portions, ``binding`` makes a task of one.
"""
