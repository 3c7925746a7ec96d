"""Which election a job with several drivers takes part in."""

from __future__ import annotations

from mainstay.api.availability import HighAvailability, ZooKeeper
from mainstay.drive.leadership import new_token
from mainstay.errors import GraphError
from mainstay.ha.election import Election
from mainstay.ha.lease import LeaseElection
from mainstay.ha.zookeeper import ZooKeeperElection
from mainstay.snapshot.layout import safe_name
from mainstay.snapshot.object_storage import open_storage


def election_of(ha: HighAvailability | None, job: str, directory: str) -> Election | None:
    """The election of a job; None where it has one driver."""
    if ha is None:
        return None
    token, store = new_token(), ha.store
    if isinstance(store, ZooKeeper):
        path = f"{store.path.rstrip('/')}/{safe_name(job)}"
        return ZooKeeperElection(store.hosts, path, store.session_s(), token, store.options)
    if directory.startswith("memory://"):
        raise GraphError(
            "ha= needs snapshots that every driver of the job can see, and memory:// is in this "
            "process alone. Use a directory that they share, or an object store."
        )
    # A place of its own may hold the elections of many jobs.
    place = directory if store is None else f"{str(store).rstrip('/')}/{safe_name(job)}"
    return LeaseElection(open_storage(place), ha.lease_s(), token, job)
