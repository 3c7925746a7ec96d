"""Another user of the machine: what a function gives when it is called as ``nobody``."""

from __future__ import annotations

import os
import pickle
import pwd
from collections.abc import Callable
from typing import Any

import pytest

NOBODY = 65534


def as_nobody(function: Callable[[], Any], umask: int = 0o022) -> Any:
    """Call a function in a process of another user; what it raises is raised here.

    The process is forked: the interpreter itself may lie where others may not read.
    """
    if os.name != "posix" or os.getuid() != 0:
        pytest.skip("only root can be another user")
    uid = pwd.getpwnam("nobody").pw_uid
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _answer(function, uid, umask, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read()
    os.waitpid(process, 0)
    assert answer, "the other user's process died"
    is_right, found = pickle.loads(answer)
    if not is_right:
        raise found
    return found


def _answer(function: Callable[[], Any], uid: int, umask: int, writing: int) -> None:
    """Never returns: the process must not run the rest of the test."""
    try:
        os.umask(umask)
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        answer = pickle.dumps((True, function()))
    except BaseException as error:
        answer = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    os.write(writing, answer)
    os._exit(0)
