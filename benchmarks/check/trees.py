"""A working copy of the repository for each of two commits, both run by this interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MEASURING = ("benchmarks/ours", "benchmarks/workloads.py", "src/mainstay/bench")
"""What decides how something is measured. Where it differs, figures may differ because of it."""


class TreeError(Exception):
    """A commit cannot be checked; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A commit, checked out."""

    name: str
    commit: str
    path: Path

    def __str__(self) -> str:
        short = self.commit[:10]
        return short if self.commit.startswith(self.name) else f"{self.name} ({short})"

    def environ(self) -> Mapping[str, str]:
        """The variables with which an interpreter imports this tree and no installed package."""
        before = os.environ.get("PYTHONPATH", "")
        path = [str(self.path / "src"), str(self.path), *filter(None, before.split(os.pathsep))]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


@contextmanager
def checked_out(repository: Path, names: Mapping[str, str], folder: Path) -> Iterator[list[Tree]]:
    """The trees of some commits, by the folder each is to be in; nothing of them is left behind."""
    trees = []
    try:
        for where, name in names.items():
            commit = _commit(repository, name)
            path = folder / where
            _git(repository, "worktree", "add", "--quiet", "--detach", str(path), commit)
            trees.append(Tree(name, commit, path))
            _assure(trees[-1])
        yield trees
    finally:
        for tree in trees:
            _git(repository, "worktree", "remove", "--force", str(tree.path))


def measuring_differs(repository: Path, base: Tree, head: Tree) -> list[str]:
    """The parts of the measuring itself that are not the same at both commits."""
    changed = _git(repository, "diff", "--name-only", base.commit, head.commit, "--", *MEASURING)
    return sorted(changed.splitlines())


def uncommitted(repository: Path) -> bool:
    """Whether there are changes of the code that no commit has, and a check does not see."""
    return bool(_git(repository, "status", "--porcelain", "--untracked-files=no", "--", "src"))


def _commit(repository: Path, name: str) -> str:
    try:
        return _git(repository, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except TreeError as error:
        raise TreeError(
            f"there is no commit {name!r} here; name a branch, a tag or a commit, as in BASE=main~5"
        ) from error


def _assure(tree: Tree) -> None:
    """Make sure that the tree is what is imported, and not an installed package."""
    environ = tree.environ()
    asked = "import mainstay, benchmarks; print(mainstay.__file__); print(benchmarks.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", asked], cwd=tree.path, env=environ, capture_output=True, text=True
    )
    if found.returncode:
        raise TreeError(f"{tree} cannot be imported: {found.stderr.strip().splitlines()[-1:]}")
    for file in found.stdout.splitlines():
        if not Path(file).resolve().is_relative_to(tree.path.resolve()):
            raise TreeError(f"{tree} was to be measured, but {file} is what Python imports")


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], capture_output=True, text=True
    )
    if done.returncode:
        raise TreeError(f"git {' '.join(arguments)}: {done.stderr.strip() or 'failed'}")
    return done.stdout.strip()
