"""Leaders in ZooKeeper: candidates stand in line as ephemeral nodes, and the first one leads.

The nodes are in the order of the transactions that created them, which never wraps. A leader renews
its tenure by writing its own node: a write goes through the majority of the servers, a read may be
answered by one that is cut off. What it says of itself is written together with a check of its own
node, in one transaction, so that a process which was replaced cannot overwrite its successor.

The client's callbacks only note something and wake the thread that does the input and output.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mainstay.errors import GraphError, LinkError
from mainstay.ha.campaign import Campaign, CampaignElection, Clock, this_process, uptime
from mainstay.ha.tenure import Tenure
from mainstay.ha.told import Told

INFORMATION_FORMAT = 1


def kazoo() -> Any:
    """The client's package, or an error that says how to get it."""
    try:
        import kazoo.client
        import kazoo.exceptions
    except ImportError as error:
        raise GraphError(
            f"an election in ZooKeeper needs the package kazoo ({error}). Install "
            "mainstay[zookeeper], or leave out store= and hold the election in the snapshot "
            "directory, which needs nothing else."
        ) from error
    return kazoo


class ZooKeeperElection(CampaignElection):
    """An election below a path of ZooKeeper. ``options`` go to the client as they are."""

    def __init__(
        self,
        hosts: str,
        path: str,
        session_s: float,
        token: str,
        options: Mapping[str, Any] | None = None,
        clock: Clock = uptime,
    ) -> None:
        kazoo()
        super().__init__(clock)
        self._settings = (hosts, path, session_s, token, dict(options or {}), clock)

    def _new_campaign(self, told: Told) -> Campaign:
        return _Campaign(*self._settings, told)


class _Campaign(Campaign):
    """Stands in line with one client, over as many sessions as it takes, until it leaves."""

    def __init__(
        self,
        hosts: str,
        path: str,
        session_s: float,
        token: str,
        options: dict[str, Any],
        clock: Clock,
        told: Told,
    ) -> None:
        super().__init__(session_s, clock, told)
        self._published: tuple[int | None, int | None] | None = None
        self._line = f"{path}/line"
        self._information = f"{path}/leader"
        self._token = token
        self._node: str | None = None
        self._session: int | None = None
        self._beats = 0
        self._ahead: tuple[str, int] = ("", -1)
        self._ahead_since = 0.0
        # A standby waits for servers that are away for as long as it takes.
        retry = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}
        self._client: Any = kazoo().client.KazooClient(
            hosts, timeout=session_s, connection_retry=retry, **options
        )
        self._client.add_listener(self._on_state)

    def _on_state(self, state: str) -> None:
        """Called on the client's own thread."""
        if state == "SUSPENDED":
            self.told.doubted()
        elif state == "LOST":
            self.told.lost()
        self._wake.set()

    def run(self) -> None:
        self._client.start_async()
        super().run()

    def _do(self, asked: Any) -> Any:
        """The answer to something that was asked without waiting; it may be long in coming."""
        return asked.get(timeout=self._length_s / 2)

    def _take_part(self) -> None:
        if not self._client.connected:
            raise LinkError("ZooKeeper does not answer")
        session = self._client.client_id[0]
        if self._node is None or session != self._session:
            self._stand_in_line(session)
        if self.told.leads:
            self._renew()
            return
        nodes = self._in_line()
        if self._node not in nodes:
            self._node = None  # the session has ended, and the node with it
        elif nodes[0] == self._node:
            self._lead()
        else:
            self._watch(nodes[nodes.index(self._node) - 1], nodes[0])

    # ------------------------------------------------------------ in line

    def _stand_in_line(self, session: int) -> None:
        self._do(self._client.ensure_path_async(self._line))
        self._session = session
        # Whether a node was made before the connection broke, only the servers know.
        own = [node for node in self._in_line() if node.startswith(f"{self._token}-")]
        for node in own:
            stat = self._do(self._client.exists_async(f"{self._line}/{node}"))
            if stat is not None and stat.ephemeralOwner == session:
                self._node = node
                return
        made = self._do(
            self._client.create_async(
                f"{self._line}/{self._token}-",
                this_process().encode(),
                ephemeral=True,
                sequence=True,
            )
        )
        self._node = made.rpartition("/")[2]

    def _in_line(self) -> list[str]:
        """The nodes of all candidates, the first to have come first."""
        children = self._do(self._client.get_children_async(self._line))
        stats = {
            node: self._do(self._client.exists_async(f"{self._line}/{node}")) for node in children
        }
        there = [node for node in children if stats[node] is not None]
        return sorted(there, key=lambda node: stats[node].czxid)

    def _watch(self, ahead: str, first: str) -> None:
        data, stat = self._do(self._client.get_async(f"{self._line}/{first}"))
        self.leader = data.decode(errors="replace").partition("\n")[0]
        self._do(
            self._client.exists_async(f"{self._line}/{ahead}", watch=lambda _: self._wake.set())
        )
        now = self._clock()
        if self._ahead != (first, stat.version):
            self._ahead, self._ahead_since = (first, stat.version), now
        self.silent_s = now - self._ahead_since

    # ------------------------------------------------------------ in the lead

    def _lead(self) -> None:
        begun_at = self._clock()
        self._beat()
        who = this_process()
        if self._ahead[0]:
            self.silent_s = begun_at - self._ahead_since
        if self.told.elected(Tenure(self._length_s, begun_at), self._clock()):
            self.leader = who
            self._published = None
            self._publish_if_new()

    def _beat(self) -> None:
        self._beats += 1
        data = f"{this_process()}\n{self._beats}".encode()
        self._do(self._client.set_async(f"{self._line}/{self._node}", data))

    def _renew(self) -> None:
        begun_at = self._clock()
        try:
            self._beat()
        except kazoo().exceptions.NoNodeError:
            self._node = None
            self.told.lost()
            return
        self.told.renewed(begun_at, self._clock())
        self._publish_if_new()

    def _publish_if_new(self) -> None:
        """Say who leads, in which attempt, and up to which epoch: with every beat at most."""
        attempt, epoch = standing = self.standing
        if standing == self._published:
            return
        self._publish(
            {
                "format": INFORMATION_FORMAT,
                "who": this_process(),
                "node": self._node,
                "attempt": attempt,
                "epoch": epoch,
            }
        )
        self._published = standing

    def _publish(self, information: dict[str, Any]) -> None:
        """The check of the own node is part of the write."""
        self._do(self._client.ensure_path_async(self._information))
        transaction = self._client.transaction()
        transaction.check(f"{self._line}/{self._node}", -1)
        transaction.set_data(self._information, json.dumps(information).encode())
        for result in self._do(transaction.commit_async()):
            # A transaction that was refused gives its errors back as values.
            if isinstance(result, Exception):
                raise result

    # ------------------------------------------------------------ the end

    def _hand_over(self) -> None:
        try:
            if self._node is not None and self._client.connected:
                self._do(self._client.delete_async(f"{self._line}/{self._node}"))
        finally:
            self._client.stop()
            self._client.close()
