"""The cluster: what a coordinator needs to have workers, which every drive implements."""

from __future__ import annotations

from typing import Protocol

from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt


class Cluster(Protocol):
    """Starts and ends the workers of an attempt."""

    def launch(self, deployment: Deployment) -> None:
        """Start every worker; each reports ``Ready`` when it can go on."""

    def end(self, attempt: Attempt) -> None:
        """End the workers of an attempt. Some may live on for a while; fencing covers that."""
