"""What a service needs of its machine before it opens a model: an address to listen at, a certificate, room
for connections. What is wrong with any is told at once."""

import logging
import socket
import ssl
import sys
from pathlib import Path

from regard.config import ConfigError

LOG = logging.getLogger("regard.serve")
PORTS = 65_535
OTHERS = 512
"""Files that a process has open beside its connections, at the most."""


def bound(host: str, port: int) -> list[socket.socket]:
    """Sockets at all addresses of a host. Nobody is let in yet: that is as soon as one listens."""
    if not 0 <= port <= PORTS:
        raise ConfigError(f"--port {port}: a port is from 0, any that is free, to {PORTS}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"--host {host}: no address to listen at ({_reason(error)}); 127.0.0.1 is this machine alone, "
            "0.0.0.0 all its addresses"
        ) from error
    sockets: list[socket.socket] = []
    for family, kind, protocol, _, address in dict.fromkeys(found):
        own = socket.socket(family, kind, protocol)
        sockets.append(own)
        try:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            first = sockets[0].getsockname()[1] if len(sockets) > 1 else port
            own.bind((address[0], first, *address[2:]))
        except OSError as error:
            for each in sockets:
                each.close()
            raise taken(host, port, error) from error
    return sockets


def url_of(host: str, port: int, *, secure: bool) -> str:
    """Of the page; addresses of IPv6 stand in brackets there."""
    return f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"


def taken(host: str, port: int, error: OSError) -> ConfigError:
    return ConfigError(
        f"--host {host} --port {port}: {_reason(error)}; choose another port, or 0 for any that is free"
    )


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


class Certificate:
    """For HTTPS; the files can be read again."""

    def __init__(self, certificate: Path, key: Path | None, password: str | None) -> None:
        self._certificate, self._key, self._password = certificate, key, password
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.read()

    def read(self) -> None:
        for option, path in (("--ssl-certfile", self._certificate), ("--ssl-keyfile", self._key)):
            if path is not None:
                try:
                    path.read_bytes()
                except OSError as error:
                    raise ConfigError(f"{option} {path}: {_reason(error)}") from error
        try:
            self.context.load_cert_chain(self._certificate, self._key, self._password or "")
        except (ssl.SSLError, ValueError) as error:
            files = f"--ssl-certfile {self._certificate}, --ssl-keyfile {self._key or 'not given'}"
            raise ConfigError(
                f"{files}: {getattr(error, 'reason', None) or error}; they should be PEM files of a "
                "certificate and its own key, and --ssl-keyfile-password what an encrypted key needs"
            ) from error


def certificate_of(certificate: Path | None, key: Path | None, password: str | None) -> Certificate | None:
    if certificate is not None:
        return Certificate(certificate, key, password)
    for option, given in (("--ssl-keyfile", key), ("--ssl-keyfile-password", password)):
        if given is not None:
            raise ConfigError(f"{option} without --ssl-certfile: give the certificate too, or neither")
    return None


def make_room(connections: int) -> None:
    """A connection is an open file, of which a process may have few unless it asks for more."""
    if sys.platform == "win32":
        return
    import resource

    needed = connections + OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= needed:
        return
    most = needed if hard == unlimited else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < needed:
        LOG.warning(
            "%d connections need %d open files, and this process may have %d: raise its limit (ulimit -Hn, "
            "LimitNOFILE), or lower --max-connections",
            connections,
            needed,
            most,
        )
