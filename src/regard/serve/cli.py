"""`regard serve`. Imports no torch."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.serve.limits import Limits
from regard.serve.signals import heard
from regard.tasks.base.options import Device, Precision

DEFAULTS = Limits()


def serve(
    models: Annotated[
        list[str],
        typer.Argument(help="Folders; NAME=FOLDER, en-de=FOLDER with languages, NAME=BASE+ADAPTER."),
    ],
    host: Annotated[str, typer.Option("--host", help="Where it listens; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0: any that is free.")] = 8000,
    keys: Annotated[
        Path | None, typer.Option("--keys", help="A file: a key a line, and the name of its translator.")
    ] = None,
    origins: Annotated[
        list[str] | None, typer.Option("--origin", help="A site whose pages may ask (CORS); repeatable.")
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="A name that it goes by behind a proxy; * for any; repeatable."),
    ] = None,
    proxies: Annotated[
        list[str] | None,
        typer.Option("--proxy", help="Address of a proxy whose X-Forwarded-For is believed; repeatable."),
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option("--memory", help="Translations and terms (regard memory): exact ones are its answers."),
    ] = None,
    memory_use: Annotated[
        Literal["exact", "never"],
        typer.Option("--memory-use", help="Whether what the memory has is the answer, or only listed."),
    ] = "exact",
    body: Annotated[int, typer.Option("--max-body", help="Bytes of a request.")] = DEFAULTS.body,
    unpacking: Annotated[
        float,
        typer.Option("--max-unpacking", help="Times --max-body, the XML of a document that was sent packed."),
    ] = DEFAULTS.unpacking,
    bodies: Annotated[
        float,
        typer.Option("--max-bodies", help="Times --max-body, the bytes of all requests together; then 429."),
    ] = DEFAULTS.bodies,
    texts: Annotated[int, typer.Option("--max-texts", help="Texts of a request.")] = DEFAULTS.texts,
    characters: Annotated[
        int, typer.Option("--max-characters", help="Characters of a request.")
    ] = DEFAULTS.characters,
    waiting: Annotated[
        int, typer.Option("--max-waiting", help="Requests that wait for a model; then 429.")
    ] = DEFAULTS.waiting,
    tokens: Annotated[
        int, typer.Option("--max-in-flight", help="Tokens, about, waiting for a model or at work.")
    ] = DEFAULTS.tokens,
    seconds: Annotated[
        float, typer.Option("--deadline", help="Seconds after which a request is given up.")
    ] = DEFAULTS.seconds,
    sending: Annotated[
        float, typer.Option("--max-sending", help="Seconds for a request to come, and an answer to be taken.")
    ] = DEFAULTS.sending,
    alternatives: Annotated[
        int, typer.Option("--max-alternatives", help="Translations or texts of one request.")
    ] = DEFAULTS.alternatives,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", help="That may follow a prompt.")
    ] = DEFAULTS.max_tokens,
    connections: Annotated[
        int, typer.Option("--max-connections", help="Open at a time.")
    ] = DEFAULTS.connections,
    look: Annotated[
        bool, typer.Option("--look", help="The explorer too, at /look/NAME/: a second copy of each model.")
    ] = False,
    warm: Annotated[bool, typer.Option("--warm", help="Ask every model once before serving.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log mistakes only, not every request.")] = False,
    certificate: Annotated[Path | None, typer.Option("--ssl-certfile", help="For HTTPS.")] = None,
    key: Annotated[Path | None, typer.Option("--ssl-keyfile", help="Its private key.")] = None,
    password: Annotated[
        str | None,
        typer.Option(
            "--ssl-keyfile-password",
            envvar="REGARD_SSL_KEYFILE_PASSWORD",
            help="Of an encrypted key; better given by the variable.",
        ),
    ] = None,
    drain: Annotated[
        float | None,
        typer.Option(
            "--drain",
            min=0,
            show_default="5; 0 on this machine alone",
            help="Seconds from SIGTERM, when /ready says so, until requests are refused.",
        ),
    ] = None,
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Serve models over HTTP: LibreTranslate's, DeepL's, OpenAI's and TEI's protocols, and regard's own."""
    from importlib.util import find_spec

    from regard.config import ConfigError

    for package in ("starlette", "uvicorn", "prometheus_client", "orjson", "multipart"):
        if find_spec(package) is None:
            raise ConfigError(f"{package} is not installed: pip install 'regard[serve]'")
    given = locals()
    limits = Limits(**{each.name: given[each.name] for each in fields(Limits)})
    with heard() as signals:
        from rich.console import Console

        from regard.serve.listening import certificate_of
        from regard.serve.run import run

        secure = certificate_of(certificate, key, password)
        run(
            models,
            host=host,
            port=port,
            limits=limits,
            keys=keys,
            origins=origins or [],
            names=names or [],
            proxies=proxies or [],
            device=device,
            precision=precision,
            memory=memory,
            memory_use=memory_use,
            look=look,
            warm=warm,
            quiet=quiet,
            console=Console(),
            certificate=secure,
            drain=drain,
            signals=signals,
        )


COMMANDS = (serve,)
