"""What answering adds to the command line: nothing by itself. `regard answer` may search a corpus before it
reads, so it stands with what searches: `regard.meaning.cli`."""

from collections.abc import Callable

COMMANDS: tuple[Callable[..., None], ...] = ()
