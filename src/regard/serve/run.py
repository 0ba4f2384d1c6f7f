"""The process: uvicorn around the application, signals, and logs without anyone's text."""

import asyncio
import gc
import ipaddress
import json
import logging
import signal
import sys
import threading
import time
import traceback
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn
from rich.console import Console

from regard.config import ConfigError
from regard.memory.recall import Use
from regard.serve.app import build_app
from regard.serve.connection import Connection
from regard.serve.limits import Limits
from regard.serve.looking import Explorers
from regard.serve.models import Models, Named
from regard.serve.service import Service
from regard.serve.sites import check_origins, own_names
from regard.tasks.base.faster import Precision

LOG = logging.getLogger("regard.serve")
FIELDS = ("door", "path", "status", "seconds")
"""What the line of a request has."""


class _Lines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"time": round(record.created, 3), "level": record.levelname.lower()}
        line["event"] = record.getMessage()
        line |= {key: getattr(record, key) for key in FIELDS if hasattr(record, key)}
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = _without_text(record.exc_info[1])
        return json.dumps(line)


def _without_text(error: BaseException) -> list[str]:
    """What it is and where it came from; what it says may have a caller's text in it."""
    before = error.__cause__ or error.__context__
    places = [
        f"{each.filename}:{each.lineno} {each.name}" for each in traceback.extract_tb(error.__traceback__)
    ]
    return [*([] if before is None else _without_text(before)), *places, type(error).__name__]


def read_keys(path: Path | None, names: Collection[str]) -> dict[str, str | None]:
    """One a line, and behind it the name of the translator that is asked where a request names none; lines
    that begin with # are none."""
    if path is None:
        return {}
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [line for line in lines if line and not line[0].startswith("#")]
    if not rows:
        raise ConfigError(f"{path}: no keys; write one a line")
    for number, row in enumerate(rows, 1):  # which is not told: it is a secret
        if len(row) > 2 or (len(row) == 2 and row[1] not in names):
            there = ", ".join(names)
            raise ConfigError(f"{path}: key {number}: behind it stands the name of a model, one of {there}")
    return {row[0]: row[1] if len(row) == 2 else None for row in rows}


def check_keys(keys: Mapping[str, str | None], models: Models) -> None:
    """Each that has a model has a translator: known once they are open."""
    there = [each.name for each in models.translators()]
    for number, name in enumerate(keys.values(), 1):
        if name is not None and name not in there:
            raise ConfigError(
                f"the keys' file: key {number}: {name} is no translator; name one of those that are served "
                f"({', '.join(there) or 'none'}), or none"
            )


def check_proxies(addresses: Sequence[str]) -> None:
    for each in addresses:
        try:
            ipaddress.ip_network(each)
        except ValueError as error:
            raise ConfigError(
                f"--proxy {each}: not an address, as 10.0.0.7, nor a network, as 10.0.0.0/24"
            ) from error


def configured(app: Any, limits: Limits, proxies: Sequence[str], **given: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=cast(Any, partial(Connection, seconds=limits.sending)),
        log_level="error",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),  # who else is believed could be any caller
        forwarded_allow_ips=[*proxies],
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=round(limits.seconds) + 5,
        timeout_keep_alive=30,
        **given,
    )


def run(
    models: Sequence[str],
    *,
    host: str,
    port: int,
    limits: Limits,
    keys: Path | None,
    origins: Sequence[str],
    names: Sequence[str],
    proxies: Sequence[str],
    device: str,
    precision: Precision | None,
    memory: Path | None,
    memory_use: Use,
    look: bool,
    warm: bool,
    quiet: bool,
    console: Console,
    tls: dict[str, Any],
) -> None:
    """Until it is told to end (SIGTERM, SIGINT): then no more is taken, and what is under way is finished.
    SIGHUP opens models whose files have changed."""
    named = [Named.of(each) for each in models]
    allowed = read_keys(keys, [each.name for each in named])
    doubles = {each.name for each in named if sum(other.name == each.name for other in named) > 1}
    if doubles:
        raise ConfigError(f"two models are called {min(doubles)!r}: name them, as NAME=FOLDER")
    check_proxies(proxies)
    check_origins(origins)
    hosts = own_names(host, names, [*allowed])
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    LOG.addHandler(handler)
    logging.getLogger("uvicorn.error").addHandler(handler)
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it quotes what it cannot read
    LOG.setLevel(logging.WARNING if quiet else logging.INFO)
    own: Any = {"memory": memory, "memory_use": memory_use}
    service = Service(named, limits=limits, device=device, precision=precision, **own)
    check_keys(allowed, service.models)
    if warm:
        service.warm()
    explorers = Explorers(lambda: service, device) if look else None
    app = build_app(lambda: service, keys=allowed, origins=origins, hosts=hosts, explorers=explorers)
    config = configured(app, limits, proxies, host=host, port=port, **tls)
    server = _Server(config, service, console)
    keep_for_good()
    again = threading.Lock()
    if hasattr(signal, "SIGHUP"):
        signal.signal(
            signal.SIGHUP, lambda *_: threading.Thread(target=_reload, args=(service, again)).start()
        )
    for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again when it has ended in good order
        signal.signal(each, lambda *_: None)
    server.run()
    service.close()
    if explorers is not None:
        explorers.close()


def keep_for_good() -> None:
    """What is there by now stays: Python's collector need not look at all modules and models again and again,
    while everybody waits."""
    gc.collect()
    gc.freeze()


def _reload(service: Service, again: threading.Lock) -> None:
    with again:
        try:
            gc.unfreeze()  # the old models may go
            LOG.info("reloaded: %s", ", ".join(service.reload()) or "nothing has changed")
            keep_for_good()
        except Exception:
            LOG.exception("a model could not be opened again; the old one goes on")


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service, console: Console) -> None:
        super().__init__(config)
        self._service, self._console = service, console

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            scheme = "https" if self.config.is_ssl else "http"
            port = self.servers[0].sockets[0].getsockname()[1]
            names = ", ".join(f"{each.name} ({each.task})" for each in self._service.models)
            self._console.print(f"serving {names}", highlight=False, markup=False, soft_wrap=True)
            address = f"{scheme}://{self.config.host}:{port}/"
            self._console.print(address, highlight=False, markup=False, soft_wrap=True)

    async def shutdown(self, sockets: Any = None) -> None:
        """It still listens while requests are under way, so that whoever asks is told."""
        self._service.stop()
        until = time.monotonic() + self._service.limits.seconds
        while self._service.busy and time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)
