"""`regard serve`: models behind HTTP, in one process. Requests of all callers are packed together.

    a caller's request -> a door (the protocol it speaks) -> a line (fair, bounded) -> a lane (one model's
    threads, which take what is waiting, as much as fits) -> the answer, as soon as it is there

Needs regard[serve]: starlette, uvicorn, prometheus-client, orjson, python-multipart, py3langid.
"""
