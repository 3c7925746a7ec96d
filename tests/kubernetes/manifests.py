"""The manifests of ``deploy/kubernetes``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.pages import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
SHARED = ("access.yaml", "settings.yaml", "services.yaml")
DRIVERS = ("job.yaml", "two-drivers.yaml")
Json = dict[str, Any]


def read(name: str) -> list[Json]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def one(kind: str, name: str) -> Json:
    """The object of a kind and a name, of all files but those of drivers."""
    everything = [each for file in SHARED for each in read(file)]
    (found,) = [
        each for each in everything if each["kind"] == kind and each["metadata"]["name"] == name
    ]
    return found


def pod_of(file: str) -> Json:
    """What a driver's pod is made after."""
    (driver,) = read(file)
    template: Json = driver["spec"]["template"]
    return template


def container_of(file: str) -> Json:
    (container,) = pod_of(file)["spec"]["containers"]
    found: Json = container
    return found


def spark_settings() -> dict[str, str]:
    text = one("ConfigMap", "order-totals-spark")["data"]["spark-defaults.conf"]
    lines = [line.split(None, 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: value.strip() for name, value in lines}


def expanded(words: list[str], **variables: str) -> list[str]:
    """A command with ``$(NAME)`` filled in, as Kubernetes does it."""
    for name, value in variables.items():
        words = [word.replace(f"$({name})", value) for word in words]
    assert not [word for word in words if "$(" in word]
    return words


def write_settings(folder: Path, **other: str) -> None:
    """The settings of Spark as a driver has them mounted, with some of them changed."""
    settings = {**spark_settings(), **other}
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (folder / "spark-defaults.conf").write_text(text)
