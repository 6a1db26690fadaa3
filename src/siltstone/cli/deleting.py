"""What became of things that were to be deleted, for people and for scripts."""

from collections.abc import Mapping, Sequence

from siltstone.cli.failures import Failure
from siltstone.cli.output import print_json, remarks, results


def tell_deleted(names: Sequence[str], refused: Mapping[str, str], as_json: bool) -> None:
    """``refused``: name → why. Raises Failure if there is any."""
    deleted = [name for name in names if name not in refused]
    if as_json:
        print_json({"deleted": deleted, "refused": refused})
    elif deleted:
        results().print(f"Deleted {', '.join(deleted)}.", markup=False, soft_wrap=True)
    for why in refused.values():
        remarks().print(f"not deleted: {why}", markup=False, soft_wrap=True)
    if refused:
        raise Failure
