"""Which contiguous stream objects of a stream become one, and how its parts are made of theirs. Pure.

``settings`` (tiers and limits), ``runs`` (what touches, from the image alone), ``groups`` (what of a run is worth it),
``parts`` (how an object is put together: ranges copied inside the store, small ones read), ``merge`` (all of it for
one group, once the indexes are known).
"""
