"""Whether a job is well, as far as its snapshot directory tells."""

from __future__ import annotations

from mainstay.inspect.survey import Directory
from mainstay.inspect.survey_condition import Condition
from mainstay.serve.documents import Verdict


def stored_verdict(condition: Condition, epoch: int | None, directory: Directory) -> Verdict:
    """The verdict on a job that is known by its directory alone."""
    flaws = [f"{flaw.path}: {flaw.why}" for _, flaw in directory.flaws()]
    if flaws:
        return Verdict(
            is_well=False,
            headline="Files of kept epochs are missing or damaged.",
            because=flaws,
            remedy="Restore them from a copy, or start from an epoch that is whole.",
        )
    where = "before its first epoch" if epoch is None else f"at epoch {epoch}"
    how = "latest-or-new" if epoch is None else "latest"
    match condition.state:
        case "finished":
            return Verdict(is_well=True, headline=f"The job has finished {where}.")
        case "stopped" | "cancelled":
            return Verdict(
                is_well=True,
                headline=f"The job was {condition.state} {where}.",
                remedy=f"Start it again with restore={how!r}.",
            )
        case "failed":
            return Verdict(
                is_well=False,
                headline=f"The job has failed {where}.",
                because=_lines(condition),
                remedy=f"Mend the cause. Start it again with restore={how!r}.",
            )
        case "running":
            return Verdict(
                is_well=True,
                headline=f"The job may be running, {where}.",
                because=_lines(condition),
            )
    return Verdict(
        is_well=False,
        headline=f"It is not known what became of the job, {where}.",
        because=_lines(condition),
        remedy=f"If it does not run elsewhere, start it again with restore={how!r}.",
    )


def _lines(condition: Condition) -> list[str]:
    first = condition.reason.strip().partition("\n")[0]
    return [first] if first else []
