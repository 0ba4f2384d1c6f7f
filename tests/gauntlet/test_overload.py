"""A minute of more questions than the explorer can answer."""

import json
import os
import random
import threading
import time
from collections import Counter

import pytest

from regard.look.explorer.explorer import Explorer
from regard.look.server import Server
from tests.look.browser.models import translator
from tests.look.test_explorer import send

SECONDS = float(os.environ.get("SECONDS", "60"))
ASKING = 50
QUESTIONS = (
    ("about", {}),
    ("head", {"text": "garden bridge", "place": "cross", "layer": 0, "head": 0}),
    ("head", {"text": "silver harbour garden", "place": "encoder", "layer": 0, "head": 1}),
    ("nothing", {}),
    ("head", {"text": 3}),
)


@pytest.mark.long
def test_for_a_minute_each_of_fifty_is_answered_refused_or_told_to_come_again(record_property):
    server = Server(Explorer(translator()))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found: Counter[str] = Counter()
    until = time.monotonic() + SECONDS

    def ask(seed: int) -> None:
        chance = random.Random(seed)
        while time.monotonic() < until:
            name, given = chance.choice(QUESTIONS)
            try:
                found[str(send(server, "POST", f"/ask/{name}", json.dumps(given).encode())[0])] += 1
            except Exception as error:
                found[repr(error)] += 1

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(ASKING)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    server.shutdown()
    server.server_close()
    wrong = {name: count for name, count in found.items() if name not in ("200", "400", "503")}
    record_property("cases", found.total())
    record_property("failures", sum(wrong.values()))
    assert wrong == {}
    assert found["200"] > 0
