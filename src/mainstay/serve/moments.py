"""Of which moment an answer is, as a document."""

from __future__ import annotations

from mainstay.inspect.answers import Answer
from mainstay.serve.documents import MomentDocument


def moment_of(answer: Answer) -> MomentDocument:
    moment = answer.moment
    return MomentDocument(
        level=moment.level,
        attempt=moment.attempt,
        epoch=moment.epoch,
        at=moment.committed_at.timestamp(),
        age_s=answer.age_s,
        took_s=answer.took_s,
    )
