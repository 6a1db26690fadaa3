"""A scene with three buckets, one of which is broken: two S3 servers, each behind a proxy, and a folder on a disk of
its own."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectState
from siltstone.offline.opening.store import open_metadata
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from support.engine.s3_server import S3Server
from support.faults.plays import keep_acknowledging
from support.faults.s3_proxy import Answers, S3Proxy, s3_proxy
from support.faults.scene import Place, Scene, Unwanted, has_line, port_of

SECOND_S3_BUCKET = 1
FOLDER_BUCKET = 2
BUCKETS = (0, SECOND_S3_BUCKET, FOLDER_BUCKET)
COPIES = 2
ELSEWHERE_SECONDS_MAX = 45
"""B04 promises 20 s; the rest is for busy cores."""


class BucketRow(msgspec.Struct, frozen=True):
    """``strategy`` is that of the store, and ``fault`` happens to ``bucket``."""

    strategy: str
    fault: str
    bucket: int

    @property
    def id(self) -> str:
        return f"{self.strategy}-{self.fault}-{self.bucket}"

    @property
    def is_written_to(self) -> bool:
        """Returns whether the bucket takes writes before the fault: under failover the first bucket takes all, under
        replication the first two."""
        match self.strategy:
            case "failover":
                return self.bucket == 0
            case "replication":
                return self.bucket < COPIES
        return True

    @property
    def is_readable(self) -> bool:
        """Returns whether everything can be read while the fault lasts."""
        return self.strategy == "replication" or not self.is_written_to or self.fault in ("denied", "full")


class SeveralBuckets(Scene):
    """``urls``: bucket id → URL, through the proxies."""

    def __init__(self, folder: Path, servers: Sequence[S3Server], *, hangs: bool = False) -> None:
        disk = f"bucket-{FOLDER_BUCKET}"
        super().__init__(folder, Place(disks=(disk,), hangs=disk if hangs else ""))
        self.servers = servers
        self.proxies: list[S3Proxy] = []
        self.urls: list[str] = []
        self._metadata: MetadataClient | None = None

    def _bucket(self, opened: ExitStack) -> str:
        for server in self.servers:
            proxy = opened.enter_context(s3_proxy(server.endpoint_url))
            url = server.new_url()
            self.urls.append(url.replace(port_of(server.endpoint_url), port_of(proxy.endpoint_url)))
            self.proxies.append(proxy)
        opened.callback(lambda: self._metadata and self._metadata.close())
        self.urls.append((self.folder / f"bucket-{FOLDER_BUCKET}" / "objects").as_uri())
        return self.urls[0]

    def _options(self, *, through_proxy: bool) -> list[str]:
        others = [f"buckets.{number}={url}" for number, url in enumerate(self.urls) if number]
        return [
            "--bucket", self.urls[0], "--metadata", f"sqlite://{self.metadata_file}",
            *(word for each in others for word in ("--set", each)),
        ]  # fmt: skip

    @contextmanager
    def urls_in_order(self, order: Sequence[int]) -> Iterator[None]:
        """The next start has the URLs in this order, as if an operator had mixed up their numbers."""
        urls, self.urls = self.urls, [self.urls[number] for number in order]
        try:
            yield
        finally:
            self.urls = urls

    def use_all(self, strategy: str) -> None:
        added = [("add", url) for url in self.urls[1:]]
        for words in [*added, ("strategy", strategy)]:
            told = self.command("buckets", *words)
            if told.status != 0:
                raise Unwanted(f"buckets {words}: {told.text}")

    @property
    def image(self) -> MetadataImage:
        if self._metadata is None:
            settings = self.load_node_settings()
            self._metadata = open_metadata(settings, SystemClock(), system_randomness(), create=False)
        return self._metadata.refresh()

    def objects_in(self) -> Counter[int]:
        """Returns the number of committed objects of each bucket, by its id. A copy counts like the object itself."""
        found = self.image.objects.values()
        committed = (each for each in found if each.state is ObjectState.COMMITTED)
        return Counter(bucket_id for each in committed for bucket_id in each.bucket_ids)

    def objects(self) -> list[str] | None:
        """Lists the objects by the metadata, as a bucket may be away."""
        found = self.image.objects.values()
        return [str(each.object_id) for each in found if each.state is ObjectState.COMMITTED]

    # -- what is done to a bucket ------------------------------------------------------------------------

    def break_bucket(self, bucket: int, fault: str) -> None:
        disk = self.disks[f"bucket-{FOLDER_BUCKET}"]
        in_folder = bucket == FOLDER_BUCKET
        match fault:
            case "killed":
                self.servers[bucket].kill()
            case "hung" if in_folder:
                self.hang_file.touch()
            case "hung":
                self.servers[bucket].stand_still()
            case "denied" if in_folder:
                disk.make_read_only()
            case "denied":
                self.proxies[bucket].answer(Answers.WRITES_DENIED)
            case "full" if in_folder:
                disk.fill()
            case "full":
                self.proxies[bucket].answer(Answers.FULL)

    def heal_bucket(self, bucket: int, fault: str) -> None:
        disk = self.disks[f"bucket-{FOLDER_BUCKET}"]
        in_folder = bucket == FOLDER_BUCKET
        match fault:
            case "killed":
                self.servers[bucket].start()
            case "hung" if in_folder:
                self.hang_file.unlink()
            case "hung":
                self.servers[bucket].go_on()
            case "denied" if in_folder:
                disk.make_writable()
            case "full" if in_folder:
                disk.empty()
            case "denied" | "full":
                self.proxies[bucket].answer(Answers.PASSED)

    def heal_servers(self) -> None:
        """Heals the servers for the next row, whatever came of this one."""
        for server in self.servers:
            server.go_on()
            if not server.is_running:
                server.start()


def play_bucket_row(scene: SeveralBuckets, row: BucketRow) -> None:
    """Producers continue whatever happens to one bucket. What is uploaded meanwhile is put into the others, and
    everything is read when the bucket is back, or before, if it can be read: under replication always."""
    scene.begin()
    scene.use_all(row.strategy)
    wanted = row.bucket if row.is_written_to else 0
    first = scene.objects_in()[wanted]  # the other buckets may get all objects until they have as many bytes
    scene.wait(lambda: scene.objects_in()[wanted] > first, 120, f"a new object in {wanted}")
    if row.strategy == "replication":
        copied = scene.command("maintain", "run", "--kind", "copies", "--runner", "in-process", seconds=300)
        if copied.status != 0:
            raise Unwanted(f"copies of what was there before: {copied.text}")
    before = scene.objects_in()
    scene.break_bucket(row.bucket, row.fault)
    keep_acknowledging(scene, 1)
    scene.wait(
        lambda: _elsewhere(scene.objects_in(), row.bucket) >= _elsewhere(before, row.bucket) + 3,
        ELSEWHERE_SECONDS_MAX,
        f"objects in the buckets that are left, after {before}",
    )
    keep_acknowledging(scene, 1)
    if row.is_written_to:
        said = (rf"bucket {row.bucket} \(", "takes no writes")
        scene.wait(lambda: has_line(scene.broker.log, said), ELSEWHERE_SECONDS_MAX, "a line about it")
    if row.is_readable:
        scene.assert_all_is_read()
    else:
        scene.assert_newest_is_read()
    scene.assert_alive("under the fault")
    scene.heal_bucket(row.bucket, row.fault)
    scene.wait_for_acks(100, 30, "after healing")
    scene.end_well()


def play_swapped(scene: SeveralBuckets, order: Sequence[int]) -> None:
    """The URLs of the buckets are at each other's numbers: no broker starts, a sweep passes them over, and nothing
    is written. With the right URLs everything is there."""
    scene.begin()
    scene.use_all("round-robin")
    scene.finish_writers()
    scene.stop()
    before = scene.objects_in()
    with scene.urls_in_order(order):
        refused = scene.serve_in_vain()
        swept = scene.command("maintain", "sweep")
    for each, status in ((refused, 2), (swept, 1)):
        if each.status != status or "Nothing was written" not in each.text:
            raise Unwanted(f"{each.status}: {each.text}")
    if scene.objects_in() != before:
        raise Unwanted(f"{scene.objects_in()} objects after {before}")
    scene.start()
    scene.produce()
    scene.wait_for_acks(100, 30, "with the right URLs")
    scene.end_well()


def _elsewhere(objects: Counter[int], bucket: int) -> int:
    return objects.total() - objects[bucket]
