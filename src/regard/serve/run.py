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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn
from rich.console import Console

from regard.config import ConfigError
from regard.memory.recall import Use
from regard.serve.app import DOORS, build_app
from regard.serve.connection import Connection, Room
from regard.serve.keys import Keys, check_keys
from regard.serve.limits import Limits
from regard.serve.listening import Certificate, bound, make_room, taken, url_of
from regard.serve.looking import Explorers
from regard.serve.models import Named
from regard.serve.service import Service
from regard.serve.signals import Signals
from regard.serve.sites import LOOPBACK, check_origins, full, own_names
from regard.tasks.base.faster import Precision

LOG = logging.getLogger("regard.serve")
DRAIN = 5.0
"""Seconds in which those who send requests here hear that it is about to end, unless told otherwise."""
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


def check_proxies(addresses: Sequence[str]) -> None:
    for each in addresses:
        try:
            ipaddress.ip_network(each)
        except ValueError as error:
            raise ConfigError(
                f"--proxy {each}: not an address, as 10.0.0.7, nor a network, as 10.0.0.0/24"
            ) from error


def configured(app: Any, limits: Limits, proxies: Sequence[str], **given: Any) -> uvicorn.Config:
    room = Room(limits.connections, full(DOORS))
    return uvicorn.Config(
        app,
        http=cast(Any, partial(Connection, seconds=limits.sending, room=room)),
        log_level="error",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),  # who else is believed could be any caller
        forwarded_allow_ips=[*proxies],
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
    drain: float | None,
    quiet: bool,
    console: Console,
    certificate: Certificate | None,
    signals: Signals,
) -> None:
    """Until it is told to end: then no more is taken, and what is under way is finished. What can be wrong
    without a model is told before one is opened."""
    named = [Named.of(each) for each in models]
    allowed = Keys(keys, [each.name for each in named])
    doubles = {each.name for each in named if sum(other.name == each.name for other in named) > 1}
    if doubles:
        raise ConfigError(f"two models are called {min(doubles)!r}: name them, as NAME=FOLDER")
    check_proxies(proxies)
    check_origins(origins)
    hosts = own_names(host, names, [*allowed.now])
    _log_lines(quiet)
    sockets = bound(host, port)
    make_room(limits.connections)
    own: Any = {"memory": memory, "memory_use": memory_use}
    service = Service(named, limits=limits, device=device, precision=precision, **own)
    check_keys(allowed.now, service.models)
    if warm:
        service.warm()
    explorers = Explorers(lambda: service, device) if look else None
    about: Any = {"keys": lambda: allowed.now, "origins": origins, "hosts": hosts, "explorers": explorers}
    tls = {} if certificate is None else {"ssl_context_factory": lambda *_: certificate.context}
    app = build_app(lambda: service, **about)
    config = configured(app, limits, proxies, host=host, port=port, **tls)
    patience = (0.0 if host in LOOPBACK else DRAIN) if drain is None else drain
    server = _Server(config, service, console, patience)
    keep_for_good()
    reading: list[Callable[[], Any]] = [] if certificate is None else [certificate.read]
    if keys is not None:
        reading.append(lambda: allowed.read(service.models))
    again = threading.Lock()
    signals.serve(server.end, lambda: _reload(service, reading, again, warm=warm))
    server.run(sockets)
    service.close()
    if explorers is not None:
        explorers.close()


def _log_lines(quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    LOG.addHandler(handler)
    logging.getLogger("uvicorn.error").addHandler(handler)
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it quotes what it cannot read
    LOG.setLevel(logging.WARNING if quiet else logging.INFO)


def keep_for_good() -> None:
    """What is there by now stays: Python's collector need not look at all modules and models again and again,
    while everybody waits."""
    gc.collect()
    gc.freeze()


def _reload(
    service: Service, reading: Sequence[Callable[[], Any]], again: threading.Lock, *, warm: bool
) -> None:
    """Keys, the certificate and models whose files have changed."""
    with again:
        for each in reading:
            try:
                each()
            except ConfigError as error:
                LOG.error("what was read before goes on: %s", error)
        try:
            gc.unfreeze()  # the old models may go
            LOG.info("reloaded: %s", ", ".join(service.reload(warm=warm)) or "nothing has changed")
            keep_for_good()
        except Exception:
            LOG.exception("a model could not be opened again; the old one goes on")


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service, console: Console, drain: float) -> None:
        super().__init__(config)
        self._service, self._console, self._drain = service, console, drain

    def end(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: Any = None) -> None:
        try:
            await super().startup(sockets)
        except OSError as error:  # another process has begun to listen there since
            raise taken(self.config.host, self.config.port, error) from error
        if self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            names = ", ".join(f"{each.name} ({each.task})" for each in self._service.models)
            self._console.print(f"serving {names}", highlight=False, markup=False, soft_wrap=True)
            address = url_of(self.config.host, port, secure=self.config.is_ssl)
            self._console.print(address, highlight=False, markup=False, soft_wrap=True)

    async def shutdown(self, sockets: Any = None) -> None:
        """First it only says that it is about to end, and answers all who have not heard of it. Then it still
        listens while requests are under way, so that whoever asks is told."""
        self._service.ready = False
        if signal.SIGTERM in self._captured_signals:  # nobody's balancer sends any other
            await self._while(self._drain, lambda: True)
        self._service.stop()
        await self._while(self._service.limits.seconds, lambda: self._service.busy)
        await super().shutdown(sockets)

    async def _while(self, seconds: float, busy: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while busy() and time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(0.02)
