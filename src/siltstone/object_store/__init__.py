"""Floor 4: buckets. ``port`` defines what a bucket does and how its requests fail; adapters carry it out.

An *object store* here is one bucket, or one prefix of a bucket. A caller opens it by URL and gets the adapter for the
URL inside a ``RetryingStore``, which retries transient failures, limits the requests in flight and counts them.

===================  ===========================================================================
``port``             the interface of a bucket, its values and its errors
``opening``          opens the store that a URL names
``buckets``          the buckets of an installation by id; reads the index of an object
``bucket_identity``  the marker object that binds a bucket to its store
``retrying``         retries (after which wait), limits and counts the requests of any adapter
``keys``             the checks of keys and uploads, and the put that replaces nothing, which all adapters share
``memory``           adapter: the memory of this process
``folder``           adapter: a local folder
``s3``               adapter: S3 and compatible stores, with the optional dependency botocore
===================  ===========================================================================
"""
