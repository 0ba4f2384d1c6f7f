"""Translation on the CPU in the paper's base shape, against CTranslate2 and transformers with our weights.

A translator that was trained on Multi30k with its norms before the layers (model.norm=pre) is widened to base
size without a change to what it says (regard.bench.widen); another, as the one that `make demo` trains, is
measured as it is. All sides translate the same sentences, text to text or tokens
to tokens, whichever suits them.

    throughput     greedy and beam 4; float32 and int8. CTranslate2 with a worker a core and batches of 64
    latency        one sentence after the other, all cores on each, in a process for each side: the median,
                   and of 100 the slowest
    memory         a process that loads the model in 8 bits and translates, at its largest
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

import numpy as np
import torch
from rich.console import Console

import regard
from regard.bench.encoder import DATA
from regard.bench.results import Report, Row, compared, named, processor, report, skipped
from regard.bench.timing import OURS, in_turns, rates
from regard.bench.widen import widened, widens
from regard.config import to_dict
from regard.decode import DecodeConfig
from regard.deploy.engine import token_names
from regard.deploy.export import write_engine
from regard.models.seq2seq import Seq2Seq
from regard.nn.stacks import Stack
from regard.settings.network import TransformerConfig
from regard.tasks.base.faster import Precision
from regard.tasks.base.folder import FORMAT, whole, write_json, write_weights
from regard.tasks.base.terminal import say
from regard.tasks.translation.encoding import encode_sources
from regard.tasks.translation.evaluate import score
from regard.tasks.translation.translator import Translator
from regard.text import read_lines
from regard.text.phrasebook import phrases

TITLE = "Translation on the CPU, base size, against CTranslate2 and transformers"
METHOD = (
    "The same weights everywhere: a trained translator widened to 6 layers of 512. CTranslate2 at its best: "
    "a worker a core, batches of 64 sentences."
)
PEERS = ("ctranslate2", "transformers")
MODELS = ("runs/multi30k-en-de", "runs/phrasebook")
"""Where a translator is looked for, unless REGARD_TRANSLATOR names a folder."""
STATUS = Path("/proc/self/status")
"""Where Linux tells a process how much it held at most."""
WORK, UNIT = "sentences, text to text", "sentences/s"
SLOW = 256
"""Sentences for transformers."""
SENTENCES, SINGLE = 1000, 100
"""Sentences in all, and those that are translated one by one."""
SMALL = 64
"""Tokens of sources that are translated at a time, where memory is dear."""
SEARCHES = {"greedy": DecodeConfig(method="greedy"), "beam 4": DecodeConfig(beam=4, stop="full")}
"""A beam stops when it is full, the only way that CTranslate2 has."""
Translate = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True, slots=True)
class Task:
    translator: Translator
    sources: list[str]
    references: list[str]
    what: str
    wide: bool
    """Widened, and so of the one make that transformers' code is given here."""


def find_task(console: Console) -> Task | None:
    wanted = [os.environ["REGARD_TRANSLATOR"]] if "REGARD_TRANSLATOR" in os.environ else MODELS
    folder = next((Path(each) for each in wanted if Path(each).is_dir()), None)
    if folder is None:
        say(console, f"translation: no translator in {', '.join(wanted)}: make demo trains one")
        return None
    own = regard.load(folder, Translator, device="cpu")
    wide = widens(own.model)
    model = widened(own.model) if wide else own.model
    shape = "widened to base size" if wide else "as it is: not of a make that can be widened"
    found = Translator(model, own.tokenizer, longest=own.longest, languages=own.languages)
    test = DATA / "multi30k"
    if test.exists() and "multi30k" in str(folder):
        sources, references = (
            [line.text for line in read_lines(test / f"test_2016_flickr.{side}.gz")] for side in ("en", "de")
        )
    else:
        pairs = [*phrases("test", SENTENCES)]
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    return Task(found, sources[:SENTENCES], references[:SENTENCES], shape, wide)


def ours(translator: Translator, search: DecodeConfig) -> Translate:
    def translate(texts: Sequence[str]) -> list[str]:
        return [each.text for each in translator.translate(list(texts), decoding=search)]

    return translate


def theirs(folder: Path, task: Task, precision: Precision, search: DecodeConfig, threads: int) -> Translate:
    """CTranslate2: `threads` workers of one thread each, or with 0 one worker that has them all."""
    import ctranslate2

    own = task.translator
    cores = torch.get_num_threads()
    workers, inside = (threads, 1) if threads else (1, cores)
    engine = ctranslate2.Translator(
        str(folder), device="cpu", compute_type=precision, inter_threads=workers, intra_threads=inside
    )
    torch.set_num_threads(cores)  # it sets the number for everybody
    names = token_names(own.tokenizer, own.model.config.decoder.vocabulary)
    ids = {name: id for id, name in enumerate(names)}
    beam = search.beam if search.method == "beam" else 1

    def translate(texts: Sequence[str]) -> list[str]:
        tokens = [[names[id] for id in row] for row in encode_sources(own.tokenizer, list(texts))]
        found = engine.translate_batch(
            tokens,
            max_batch_size=64,
            beam_size=beam,
            length_penalty=search.length_penalty if beam > 1 else 0.0,
            max_decoding_length=2 * max(map(len, tokens)) + 20,  # as ours has it, for the longest
        )
        return own.tokenizer.decode_batch([[ids[token] for token in each.hypotheses[0]] for each in found])

    return translate


def peer_model(own: Translator) -> Any:
    """M2M100's code is the pre-norm Transformer: our weights, by their names."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    config = own.model.config
    body = cast(TransformerConfig, config.encoder.body)
    first = cast(Stack, own.model.encoder.body).each[0]
    start, end = own.tokenizer.require("start"), own.tokenizer.require("end")
    heads, d_ff = body.attention.heads, first.feed_forward.inner.out_features
    model = M2M100ForConditionalGeneration(
        M2M100Config(
            vocab_size=config.decoder.vocabulary, d_model=config.decoder.d_model,
            encoder_layers=body.layers, decoder_layers=body.layers,
            encoder_attention_heads=heads, decoder_attention_heads=heads,
            encoder_ffn_dim=d_ff, decoder_ffn_dim=d_ff, activation_function="relu", scale_embedding=True,
            pad_token_id=0, bos_token_id=start, eos_token_id=end, decoder_start_token_id=start,
            max_position_embeddings=256, attn_implementation="sdpa",
        )
    ).eval()  # fmt: skip
    copy_weights(own.model, model)
    return model


def of_transformers(task: Task) -> Callable[[DecodeConfig], Translate]:
    own, model = task.translator, peer_model(task.translator)
    start, end = own.tokenizer.require("start"), own.tokenizer.require("end")

    def ready(search: DecodeConfig) -> Translate:
        def translate(texts: Sequence[str]) -> list[str]:
            rows = encode_sources(own.tokenizer, list(texts))
            order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
            found: dict[int, list[int]] = {}
            for first in range(0, len(order), 64):
                chosen = order[first : first + 64]
                longest = max(len(rows[row]) for row in chosen)
                ids = torch.zeros(len(chosen), longest, dtype=torch.int64)
                seen = torch.zeros_like(ids)
                for place, row in enumerate(chosen):
                    ids[place, : len(rows[row])] = torch.tensor(rows[row])
                    seen[place, : len(rows[row])] = 1
                beam = search.beam if search.method == "beam" else 1
                with torch.inference_mode():
                    out = model.generate(
                        ids, attention_mask=seen, num_beams=beam, do_sample=False, max_new_tokens=100
                    )
                found |= dict(zip(chosen, out.tolist(), strict=True))
            special = {0, start, end}
            kept = [[id for id in found[row][1:] if id not in special] for row in range(len(rows))]
            return own.tokenizer.decode_batch(kept)

        return translate

    return ready


@torch.no_grad()
def copy_weights(own: Seq2Seq, theirs: Any) -> None:
    theirs.model.shared.weight.copy_(own.encoder.embedding.tokens.weight)
    sides: dict[str, Any] = {"encoder": own.encoder, "decoder": own.decoder}
    for name, side in sides.items():
        other = getattr(theirs.model, name)
        table = side.embedding.positions.table.weight
        first = other.padding_idx + 1
        weights = torch.zeros(len(table) + first, table.shape[1])
        weights[first:] = table
        other.embed_positions.weights = weights
        other.layer_norm.load_state_dict(side.body.final_norm.state_dict())
        for layer, peer in zip(side.body.each, other.layers, strict=True):
            width = layer.attention.d_queries
            for part, rows in (("q", 0), ("k", 1), ("v", 2)):
                into = getattr(peer.self_attn, f"{part}_proj")
                into.weight.copy_(layer.attention.project.weight[rows * width : (rows + 1) * width])
                into.bias.copy_(layer.attention.project.bias[rows * width : (rows + 1) * width])
            peer.self_attn.out_proj.load_state_dict(layer.attention.output.state_dict())
            peer.self_attn_layer_norm.load_state_dict(layer.attention_residual.norm.state_dict())
            if layer.cross_attention is not None:
                across = layer.cross_attention
                peer.encoder_attn.q_proj.load_state_dict(across.project_queries.state_dict())
                for part, rows in (("k", 0), ("v", 1)):
                    into = getattr(peer.encoder_attn, f"{part}_proj")
                    into.weight.copy_(across.project_memory.weight[rows * width : (rows + 1) * width])
                    into.bias.copy_(across.project_memory.bias[rows * width : (rows + 1) * width])
                peer.encoder_attn.out_proj.load_state_dict(across.output.state_dict())
                peer.encoder_attn_layer_norm.load_state_dict(layer.cross_residual.norm.state_dict())
            peer.fc1.load_state_dict(layer.feed_forward.inner.state_dict())
            peer.fc2.load_state_dict(layer.feed_forward.output.state_dict())
            peer.final_layer_norm.load_state_dict(layer.feed_forward_residual.norm.state_dict())


def compare(task: Task, work: Path) -> Iterator[Row]:
    own = task.translator
    model, texts = save(task, work)
    eight = Translator(own.model, own.tokenizer, longest=own.longest, precision="int8")
    bleu = dict.fromkeys(SEARCHES, "")
    kinds: dict[Literal["float32", "int8"], Translator] = {"float32": own, "int8": eight}
    for precision, translator in kinds.items():
        folder = work / precision
        try:
            import ctranslate2  # noqa: F401
        except ImportError as error:
            yield skipped(error, work=WORK, setting=precision, unit=UNIT, peer="ctranslate2")
            continue
        write_engine(own, folder, precision)
        for name, search in SEARCHES.items():
            setting = f"{precision}, {name}"
            side = ours(translator, search)
            peer = theirs(folder, task, precision, search, torch.get_num_threads())
            mine, other = side(task.sources), peer(task.sources)
            scores = [score(texts, [task.references], ("bleu",)) for texts in (mine, other)]
            figures = [each["bleu"].value for each in scores]
            same = sum(one == two for one, two in zip(mine, other, strict=True)) / len(mine)
            lost = f", {bleu[name]} in float32" if bleu[name] else ""
            bleu[name] = bleu[name] or f"{figures[0]:.2f}"
            notes = f"{task.what}; BLEU {figures[0]:.2f}{lost}, theirs {figures[1]:.2f}; {same:.0%} the same"
            times = in_turns({OURS: partial(side, task.sources), "theirs": partial(peer, task.sources)})
            speeds = [rates(len(task.sources), each) for each in times.values()]
            peer_name = named("ctranslate2")
            yield compared(*speeds, work=WORK, setting=setting, unit=UNIT, peer=peer_name, notes=notes)
        yield from latency(model, folder, texts, precision)
    if task.wide:
        yield from slow_ones(task, kinds)
    if (work / "int8").exists() and STATUS.exists():
        yield from memory(model, work / "int8", texts)


def latency(folder: Path, engine: Path, texts: Path, precision: Precision) -> Iterator[Row]:
    """Each side in a process of its own, twice, in turns: in one, threads of the one that wait for work keep
    those of the other from it."""
    times: list[list[float]] = [[], []]
    for _ in range(2):
        for own, side in zip(times, ("", str(engine)), strict=True):
            call = f"singly({str(folder)!r}, {side!r}, {str(texts)!r}, {precision!r})"
            code = f"import json; from regard.bench.translation import singly; print(json.dumps({call}))"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            own += json.loads(done.stdout.splitlines()[-1])
    for name, share in (("median", 50), ("99 of 100", 99)):
        both = [[float(np.percentile(each, share))] for each in times]
        yield compared(
            *both, work="one sentence", setting=f"{precision}, greedy, {name}", unit="ms",
            peer=named("ctranslate2"),
        )  # fmt: skip


def singly(folder: str, engine: str, texts: str, precision: Precision) -> list[float]:
    """Milliseconds for each text; by CTranslate2 if it is given a folder."""
    lines, search = Path(texts).read_text(encoding="utf-8").splitlines()[:SINGLE], SEARCHES["greedy"]
    own = regard.load(folder, Translator, device="cpu", precision="float32" if engine else precision)
    side = ours(own, search)
    if engine:
        side = theirs(Path(engine), Task(own, lines, [], "", wide=True), precision, search, 0)
    times = []
    for text in lines[:5] + lines:
        start = time.perf_counter()
        side([text])
        times.append(1000 * (time.perf_counter() - start))
    return times[5:]


def slow_ones(task: Task, kinds: Mapping[Literal["float32", "int8"], Translator]) -> Iterator[Row]:
    texts = task.sources[:SLOW]
    try:
        ready = of_transformers(task)
    except ImportError as error:
        yield skipped(error, work=WORK, setting="float32", unit=UNIT, peer="transformers")
        return
    for name, search in SEARCHES.items():
        other = ready(search)
        sides: dict[str, Translate] = {kind: ours(each, search) for kind, each in kinds.items()}
        theirs = other(texts)
        same = {
            kind: sum(one == two for one, two in zip(side(texts), theirs, strict=True)) / len(texts)
            for kind, side in sides.items()
        }
        every = {**sides, "theirs": other}
        times = in_turns({side: partial(each, texts) for side, each in every.items()}, rounds=3)
        speeds = {side: rates(len(texts), each) for side, each in times.items()}
        for kind in kinds:
            yield compared(
                speeds[kind], speeds["theirs"], work=f"{SLOW} sentences, text to text",
                setting=f"{kind}, {name}", unit="sentences/s", peer=named("transformers"),
                notes=f"theirs in float32; {same[kind]:.0%} the same",
            )  # fmt: skip


def save(task: Task, work: Path) -> tuple[Path, Path]:
    """The model, and texts, for processes of their own."""
    folder, texts, own = work / "model", work / "texts", task.translator
    folder.mkdir()
    about = {"model": to_dict(own.model.config), "decode": to_dict(own.decoding), "longest": own.longest}
    write_json(folder / "config.json", {"format": FORMAT, "task": "translate", "languages": [], **about})
    write_weights(folder, whole(own.model))
    own.tokenizer.save(folder / "tokenizer.json")
    texts.write_text("\n".join(task.sources[:SLOW]), encoding="utf-8")
    return folder, texts


def memory(folder: Path, engine_folder: Path, texts: Path) -> Iterator[Row]:
    """Of fresh processes: what they held at most. Fewer sentences at a time take less, and longer."""
    plain = f"t = regard.load({str(folder)!r}, device='cpu', precision='int8')"
    engine = f"t = regard.deploy.engine.open_deployed(Path({str(engine_folder)!r}), device='cpu')"

    def most(opened: str, settings: str = "") -> float:
        code = (
            "import re, regard, regard.deploy.engine; from pathlib import Path\n"
            f"{opened}\nlines = Path({str(texts)!r}).read_text(encoding='utf-8').splitlines()\n"
            f"t.translate(lines{settings})\n"
            f"print(re.search('VmHWM:\\s+(\\d+)', Path({str(STATUS)!r}).read_text())[1])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return int(done.stdout.split()[-1]) / 1024

    theirs = most(engine)
    for settings in ("", f", batch_tokens={SMALL}"):
        yield compared(
            [most(plain, settings)], [theirs], work="a process that translates", setting=f"int8{settings}",
            unit="MiB at most", peer=f"{named('ctranslate2')} in regard",
        )  # fmt: skip


def measure(console: Console) -> Report | None:
    task = find_task(console)
    if task is None:
        return None
    with TemporaryDirectory() as work:
        rows = [*compare(task, Path(work))]
    return report("translation", title=TITLE, method=METHOD, machine=processor(), rows=rows, peers=PEERS)
