"""Whether a job is ready: it is led here, it runs, and its epochs come."""

from __future__ import annotations

from mainstay.serve.documents import HealthDocument
from mainstay.serve.verdict import Standing

OFFLINE = HealthDocument(
    is_ready=False,
    role="offline",
    reason="This shows a snapshot directory; no job runs here.",
)


def role_of(status: str) -> str:
    """What this process is to the job."""
    return "standby" if status == "standby" else "leader"


def health_of(standing: Standing) -> HealthDocument:
    """Ready, or why not. Problems that a job waits out are no reason until epochs are late."""
    reason = _reason(standing)
    return HealthDocument(is_ready=not reason, role=role_of(standing.status), reason=reason)


def _reason(standing: Standing) -> str:
    if standing.status == "standby":
        return "This process stands by."
    if standing.status != "running":
        return f"The job is {standing.status}."
    if standing.is_late:
        return (
            f"No epoch has been complete for {standing.silent_s:.0f} s; they are taken every "
            f"{standing.every_s:g} s."
        )
    return ""
