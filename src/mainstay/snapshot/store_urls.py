"""URLs of object stores that are written almost right.

    >>> refuse_torn("s3:/bucket/job", ValueError)
    Traceback (most recent call last):
    ...
    ValueError: 's3:/bucket/job' lacks a slash of a URL. Did you mean \
's3://bucket/job'? (pathlib.Path drops a slash: give a URL as a text.)
"""

from __future__ import annotations

import re
from difflib import get_close_matches

PLACES = ("file", "s3", "gs", "az")
"""The schemes of the places that can be named by anybody."""
_OTHER_NAMES = {
    "s3n": "s3",
    "gcs": "gs",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "wasb": "az",
    "wasbs": "az",
}
"""What else a place that is known is called elsewhere, where that is not near in spelling."""
_TORN = re.compile(
    r"(file|s3a?|s3n|gs|gcs|az|abfss?|wasbs?|hdfs|dbfs|memory):(?!//)[:/]*(.*)", re.I
)


def refuse_torn(place: str, error: type[Exception]) -> None:
    """Refuse a URL that lacks a slash: it would be a folder of that name, below this one.

    ``./s3:/bucket`` names that folder all the same.
    """
    torn = _TORN.fullmatch(place)
    if torn is None:
        return
    slashes = ":///" if torn[1].lower() == "file" else "://"
    raise error(
        f"{place!r} lacks a slash of a URL. Did you mean "
        f"'{torn[1]}{slashes}{torn[2]}'? (pathlib.Path drops a slash: give a URL as a text.)"
    )


def meant_scheme(scheme: str) -> str:
    """A question for the end of a message, where a scheme is another name of one that is known, or
    near to it; of others nothing is guessed."""
    given = scheme.lower()
    near = get_close_matches(given, PLACES, n=1, cutoff=0.6)
    meant = _OTHER_NAMES.get(given) or (near[0] if near else None)
    return f" Did you mean '{meant}://'?" if meant else ""
