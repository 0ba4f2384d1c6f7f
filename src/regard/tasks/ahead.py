"""What `regard train` does with the text before torch is there, each in a process of its own.

    the doctor    looks at the text; `run.fit` waits for the report
    the text      the tokenizer is learned, the token stores are filled; `prepare` finds them in the folder

Importing torch takes seconds, in which another core may as well work. Whatever fails here is done once more
where it always was, and told there. Imports no torch.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.tasks.base.recipe import Written
from regard.tasks.registry import get_task
from regard.text.doctor import Report


class Ahead:
    """Work that has begun."""

    def __init__(self, written: Written[Any], folder: Path, *, check: bool) -> None:
        task, processes = get_task(written.checked.task), multiprocessing.get_context("fork")
        self._report, report = processes.Pipe(duplex=False)

        def look() -> None:
            if check and task.check is not None:
                report.send(task.check(written, tokens=False))

        def settle() -> None:
            if task.ahead is not None:
                task.ahead(written, folder)

        self._doctor = processes.Process(target=_quietly, args=(look,), daemon=True)
        self._text = processes.Process(target=_quietly, args=(settle,), daemon=True)
        self._doctor.start()
        self._text.start()
        report.close()

    def report(self) -> Report | None:
        """What the doctor has found; None if it came to no end."""
        try:
            return self._report.recv()
        except (EOFError, OSError):
            return None

    def wait(self) -> None:
        """Until the text is settled."""
        self._text.join()

    def end(self) -> None:
        """Whatever is not done is not wanted any more."""
        for process in (self._doctor, self._text):
            process.terminate()
            process.join()
        self._report.close()


def begin(written: Written[Any], folder: Path, *, check: bool) -> Ahead | None:
    """None where there is nothing to win, or something to lose: a folder that holds anything, other processes
    of the same run, threads of torch's."""
    empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    alone = "RANK" not in os.environ and "torch" not in sys.modules
    if empty and alone and hasattr(os, "fork") and (os.cpu_count() or 1) > 1:
        return Ahead(written, folder, check=check)
    return None


def _quietly(work: Callable[[], None]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        work()
    except Exception:  # told by who does it again
        os._exit(1)
