"""Plans key compaction: which compacted streams are compacted, up to which offset, and why. Pure functions of the
image and the time.

``planner`` finds for each stream its prefix (the stream objects it begins with) and its bound (the offset up to which
it may be compacted), and chooses the streams that are worth it, the dirtiest first. ``stream_plan`` has the plan of
one stream and its dirtiness (how much of it is new). ``binding`` makes a task input of a plan and what was prepared
for it.
"""
