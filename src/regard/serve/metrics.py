"""Counts for Prometheus: how many, how long, how full. No text, no addresses."""

import time
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from regard.serve.line import Line, Work

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TOKENS = (16, 64, 256, 1024, 4096, 16_384, 65_536)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: Any = {"registry": self.registry}
        self._requests = Counter(
            "regard_requests_total", "Requests, by door and status.", ["door", "status"], **own
        )
        self._seconds = Histogram(
            "regard_request_seconds", "From the first byte to the answer.", ["door"], buckets=SECONDS, **own
        )
        self._waited = Histogram(
            "regard_wait_seconds", "In the line of a model.", ["model"], buckets=SECONDS, **own
        )
        self._batches = Histogram(
            "regard_batch_tokens",
            "Tokens, about, of what begins together.",
            ["model"],
            buckets=TOKENS,
            **own,
        )
        self._shared = Counter("regard_batch_requests_total", "Requests in all batches.", ["model"], **own)
        self._waiting = Gauge("regard_waiting", "Requests in the line of a model.", ["model"], **own)
        self._tokens = Gauge("regard_tokens", "Tokens, about, waiting or at work.", ["model"], **own)

    def watch(self, model: str, line: Line) -> None:
        self._waiting.labels(model).set_function(line.__len__)
        self._tokens.labels(model).set_function(lambda: line.tokens)

    def took(self, model: str, works: Sequence[Work], *, whole: bool = False) -> None:
        """A batch begins. Unless each is `whole` in it, a large request is in several, with a part of its
        tokens in each; it has waited, and is counted, when the first begins."""
        now = time.monotonic()
        self._batches.labels(model).observe(sum(work.cost if whole else work.granted for work in works))
        fresh = [work for work in works if work.state is None]
        self._shared.labels(model).inc(len(fresh))
        for work in fresh:
            self._waited.labels(model).observe(now - work.began)

    def answered(self, door: str, status: int, seconds: float) -> None:
        self._requests.labels(door, str(status)).inc()
        self._seconds.labels(door).observe(seconds)

    def page(self) -> bytes:
        return generate_latest(self.registry)
