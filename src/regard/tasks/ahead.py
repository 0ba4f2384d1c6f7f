"""What `regard train` does with the text before torch is there, each in a process of its own.

    the doctor    looks at the text; `run.fit` waits for the report
    the text      the tokenizer is learned, the token stores are filled; `prepare` finds them in the folder

Importing torch takes seconds, in which another core may as well work. Whatever fails here is done once more
where it always was, and told there. Imports no torch.

Both die with the process that began them, even if that is killed. They write nowhere but into two folders of
their own: one for temporary files, and one inside the model's, out of which `wait` moves what is done. So no
other run's files are ever written over, and `end` leaves nothing behind. What killed runs have left goes when
the next one begins; the locks on folders say which are in use.
"""

import atexit
import ctypes
import multiprocessing
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.tasks.base.recipe import Written
from regard.tasks.registry import get_task
from regard.text.doctor import Report

LOCKS: Any = import_module("fcntl") if find_spec("fcntl") else None
"""Windows has none, and no `fork` either."""
PRIVATE = "text.ahead-"
"""How the name of the text's own folder begins, inside the model's."""
TEMPORARY = "regard-ahead-"
"""How that of the one for temporary files does."""
YOUNG = 60
"""Seconds in which a folder may not have its lock yet."""
DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class Ahead:
    """Work that has begun."""

    def __init__(self, written: Written[Any], folder: Path, *, check: bool) -> None:
        task, processes = get_task(written.checked.task), multiprocessing.get_context("fork")
        self._folder, self._private = folder, folder / f"{PRIVATE}{secrets.token_hex(8)}"
        _sweep_temporary()
        self._temporary = tempfile.mkdtemp(prefix=TEMPORARY)
        self._held = _locked(Path(self._temporary))
        self._report, report = processes.Pipe(duplex=False)

        def look() -> None:
            if check and task.check is not None:
                report.send(task.check(written, tokens=False))

        def settle() -> None:
            if task.ahead is not None:
                task.ahead(written, self._private)

        own = os.getpid(), self._temporary
        self._doctor = processes.Process(target=_quietly, args=(look, *own), daemon=True)
        self._text = processes.Process(target=_quietly, args=(settle, *own), daemon=True)
        self._doctor.start()
        report.close()  # before the other one inherits it: the doctor's end is then that of the pipe
        self._text.start()
        atexit.register(self.end)  # for whoever is interrupted before they come to it

    def report(self) -> Report | None:
        """What the doctor has found; None if it came to no end."""
        try:
            return self._report.recv()
        except (EOFError, OSError):
            return None

    def wait(self) -> None:
        """Until the text is settled, in the folder, which the caller holds. What is there already stays."""
        self._text.join()
        if self._text.exitcode == 0 and self._private.is_dir():
            for path in self._private.iterdir():
                if not (self._folder / path.name).exists():
                    path.rename(self._folder / path.name)

    def end(self) -> None:
        """Whatever is not done is not wanted any more."""
        for process in (self._doctor, self._text):
            process.terminate()
            process.join()
        self._report.close()
        shutil.rmtree(self._private, ignore_errors=True)
        shutil.rmtree(self._temporary, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None


def begin(written: Written[Any], folder: Path, *, check: bool) -> Ahead | None:
    """None where there is nothing to win, or something to lose: a folder that holds anything but what a run
    that was killed has left here, other processes of the same run, threads of torch's."""
    empty = not folder.exists() or (
        folder.is_dir() and all(path.name.startswith(PRIVATE) for path in folder.iterdir())
    )
    alone = "RANK" not in os.environ and "torch" not in sys.modules
    if empty and alone and hasattr(os, "fork") and (os.cpu_count() or 1) > 1:
        return Ahead(written, folder, check=check)
    return None


def sweep(folder: Path) -> None:
    """Remove what killed runs have left in a folder, which the caller holds and has waited for."""
    for path in folder.glob(f"{PRIVATE}*"):
        shutil.rmtree(path, ignore_errors=True)


def _sweep_temporary() -> None:
    """Remove what killed runs of this user have left where temporary files are."""
    for path in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
        with suppress(OSError):  # another run was faster
            about = path.lstat()
            if about.st_uid != os.getuid() or time.time() - about.st_mtime < YOUNG:
                continue
            if (held := _locked(path)) is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(held)


def _locked(folder: Path) -> int | None:
    """An open folder that nobody else has; None if somebody does, or nobody can say. Who is begun from here
    has it as well: it is free when the last of them has ended, even if killed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        LOCKS.flock(descriptor, LOCKS.LOCK_EX | LOCKS.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _quietly(work: Callable[[], None], parent: int, temporary: str) -> None:
    _die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    tempfile.tempdir = temporary
    try:
        work()
    except Exception:  # told by who does it again
        os._exit(1)


def _die_with(parent: int) -> None:
    """Linux sends a signal, which comes at once whatever is computed. (It comes at the end of the thread that
    has begun this process: the main one.) Elsewhere a thread looks."""
    told = sys.platform == "linux" and not ctypes.CDLL(None).prctl(
        DIES_WITH_PARENT, ctypes.c_ulong(signal.SIGKILL)
    )
    if not told:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it was gone before
        os._exit(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
