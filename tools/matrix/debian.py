"""A Python of another release of Debian, in a folder.

debootstrap puts the release there (280 MB, and a minute), and commands run in it by ``chroot``. The
folders that they need of this machine are mounted for each command in a namespace of its own, so
that nothing stays mounted. It needs root, on a Debian.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tools.matrix.interpreters import Interpreter

SUITES = {"3.14": "forky"}
"""The release of Debian that has a version of Python which older ones have not."""
MIRROR = "http://deb.debian.org/debian"
_ENTER = """
root=$1; shift
for each in $MATRIX_MOUNTS; do
    if [ -d "$each" ]; then mkdir -p "$root$each"; else : >> "$root$each"; fi
    mount --rbind "$each" "$root$each"
done
exec chroot "$root" /usr/bin/env -C "$PWD" "$@"
"""


def why_not(version: str) -> str | None:
    """Why a Python cannot be had from Debian, if it cannot."""
    if version not in SUITES:
        return "no release of Debian is known to have it"
    if os.geteuid() != 0:
        return "a folder of Debian needs root"
    missing = [name for name in ("apt-get", "dpkg", "unshare", "chroot") if not shutil.which(name)]
    return f"{', '.join(missing)} not found" if missing else None


def interpreter(version: str, folder: Path, shared: list[Path]) -> Interpreter:
    """The Python of a folder of Debian, which is made where it is missing.

    Commands see ``shared``, and the Java of this machine, under the same paths as here.
    """
    root = folder / SUITES[version]
    python = f"/usr/bin/python{version}"
    if not (root / python.lstrip("/")).exists():
        _bootstrap(version, root)
    java = _java_home()
    entry = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", _ENTER, "sh", str(root))
    variables = {"MATRIX_MOUNTS": " ".join(map(str, _mounts(shared, java)))}
    variables |= {"JAVA_HOME": str(java)} if java else {}
    asked = [*entry, python, "-c", "import platform; print(platform.python_version())"]
    return Interpreter(_said(asked, variables).strip(), python, entry, variables)


def _mounts(shared: list[Path], java: Path | None) -> list[Path]:
    of_machine = [*map(Path, ("/proc", "/dev", "/tmp", "/etc/resolv.conf", "/etc/hosts"))]
    # pip has to trust whom this machine trusts.
    of_machine += [Path("/etc/ssl/certs"), Path("/usr/share/ca-certificates")]
    of_java = [] if java is None else [java, *Path("/etc").glob("java-*-openjdk")]
    return [each for each in [*of_machine, *of_java, *shared] if each.exists()]


def _java_home() -> Path | None:
    found = shutil.which("java")
    home = os.environ.get("JAVA_HOME") or (found and Path(found).resolve().parents[1])
    return Path(home) if home else None


def _bootstrap(version: str, root: Path) -> None:
    """Put the release into a folder beside, and into its place when it is whole."""
    parts = root.with_suffix(".parts")
    shutil.rmtree(parts, ignore_errors=True)
    tool, half = parts / "debootstrap", parts / "root"
    tool.mkdir(parents=True)
    _said(["apt-get", "download", "debootstrap"], folder=tool)
    (package,) = tool.glob("*.deb")
    _said(["dpkg", "-x", str(package), str(tool)])
    packages = f"python{version},python{version}-venv,ca-certificates"
    options = ["--variant=minbase", f"--include={packages}"]
    scripts = tool / "usr/share/debootstrap"
    # The debootstrap of an older release may not know the newer one by name.
    what = [SUITES[version], str(half), MIRROR, str(scripts / "scripts" / "sid")]
    _said([str(tool / "usr/sbin/debootstrap"), *options, *what], {"DEBOOTSTRAP_DIR": str(scripts)})
    half.rename(root)
    shutil.rmtree(parts)


def _said(
    command: list[str], variables: dict[str, str] | None = None, folder: Path | None = None
) -> str:
    env = {**os.environ, **(variables or {})}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:3])} failed: {done.stdout[-500:]}{done.stderr}")
    return done.stdout
