"""Callers: so many connections, each with one request after the other, as light as Python can be; they share
the machine with the service that they ask.

python -m regard.bench.load ADDRESS CALLERS SECONDS < bodies, one JSON object a line    prints JSON
"""

import asyncio
import json
import random
import sys
import time
from urllib.parse import urlsplit


async def _caller(address: str, bodies: list[bytes], number: int, until: float, times: list[float]) -> None:
    parts, draw = urlsplit(address), random.Random(number)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    while (began := time.perf_counter()) < until:
        body = draw.choice(bodies)
        writer.write(
            f"POST {parts.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        first = head.index(b"content-length:") + len(b"content-length:")
        answer = await reader.readexactly(int(head[first : head.index(b"\r", first)]))
        if b" 200 " not in head[:16]:
            raise RuntimeError(f"{address} answers {head[:40]!r}: {answer[:200]!r}")
        times.append(time.perf_counter() - began)
    writer.close()


async def load(address: str, bodies: list[bytes], callers: int, seconds: float) -> list[float]:
    """Seconds of every request that was answered."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    await asyncio.gather(*(_caller(address, bodies, number, until, times) for number in range(callers)))
    return times


def main() -> None:
    address, callers, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    bodies = [line.strip().encode() for line in sys.stdin]
    times = sorted(asyncio.run(load(address, bodies, callers, seconds)))
    found = {
        "rate": len(times) / seconds,
        "p50": 1000 * times[len(times) // 2],
        "p99": 1000 * times[min(len(times) * 99 // 100, len(times) - 1)],
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
