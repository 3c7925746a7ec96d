"""The oldest versions of packages that pyproject.toml allows, as constraints for pip."""

from __future__ import annotations

import email
import re
import zipfile
from pathlib import Path

_REQUIREMENT = re.compile(r"([\w-]+)[^;]*?>=([\d.]+)")


def constraints(wheel: Path) -> str:
    """A line for each package that the wheel asks for, but for PySpark, which is chosen apart."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        asked = email.message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    used = (each for each in asked if not re.search(r"extra == '(dev|bench|docs)'", each))
    found = {match[1]: match[2] for each in used if (match := _REQUIREMENT.match(each))}
    return "".join(f"{name}=={oldest(found[name])}\n" for name in found if name != "pyspark")


def oldest(version: str) -> str:
    """What matches the first minor version that is allowed: patches of it mend what was broken."""
    parts = version.split(".")
    return version if len(parts) > 2 else ".".join([*parts, "0"][:2]) + ".*"
