"""Floor 9: what a store costs, by topic, estimated from its metadata alone. Pure.

A *cost estimate* has a row for each topic: storage, requests and compute a month. It follows from the image (bytes) and
from what the log still tells (objects that were put, jobs that ran), and names its assumptions.

Reading order: ``observed`` (the log → counts), ``estimate`` (image and counts → amounts of money), ``retention`` (what
another retention time would save).
"""
