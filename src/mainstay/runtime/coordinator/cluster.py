"""The cluster: what a coordinator needs to have workers, which every drive implements."""

from __future__ import annotations

from typing import Protocol

from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt


class Cluster(Protocol):
    """Starts and ends the workers of an attempt."""

    @property
    def counts_room(self) -> bool:
        """Whether it can tell how much room there is; where it cannot, there is always enough."""

    def room(self) -> int | None:
        """For how many workers of the job there is room, its own included; called in the
        background. None where that cannot be told just now."""

    def launch(self, deployment: Deployment) -> None:
        """Start every worker; each reports ``Ready`` when it can go on."""

    def end(self, attempt: Attempt) -> None:
        """End the workers of an attempt. Some may live on for a while; fencing covers that."""
