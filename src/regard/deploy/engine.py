"""Translating by CTranslate2: the engine of a `Translator` whose search runs there.

Splitting, languages, batches and texts are the translator's own. Greedy search and beams are those of
`regard.decode`, with the same length penalty (the end counts in a length, there as here) and, for each
source, the same maximum. What differs:

    scores   the probability of tokens that may not come goes to the others: next to nothing where these are
             special ones and the model is trained; with no_repeat, minimum and suppressed words it can be
             much, and beams may end elsewhere
    ties     a near tie may fall the other way, since sums are added up in another order

Samples, alignments, forced prefixes and a stop other than "full" are refused: use the model's own folder.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch

from regard.config import ConfigError
from regard.decode import Hypothesis
from regard.decode.config import rank
from regard.deploy.folder import Facts, Precision, read_facts
from regard.models.seq2seq import Seq2Seq
from regard.tasks.base.folder import FolderError
from regard.tasks.translation.engine import Options, Results, search_in_batches
from regard.tasks.translation.pieces import Piece, PieceResult
from regard.tasks.translation.translator import Translator
from regard.text import Tokenizer

CHUNK = 4096
"""Tokens of a batch inside the engine: several are translated at the same time, one by each thread."""


def library() -> Any:
    """ctranslate2, which is an extra."""
    try:
        import ctranslate2
    except ImportError as error:
        raise ConfigError("CTranslate2 is not installed: pip install regard[deploy]") from error
    return ctranslate2


def token_names(tokenizer: Tokenizer, rows: int) -> list[str]:
    """What the engine calls the rows of the vocabulary: by their tokens; a row without one gets a name that
    no token has."""
    names = {id: token for token, id in tokenizer.vocabulary.items()}
    taken = set(names.values())
    return [names[row] if row in names else _free_name(row, taken) for row in range(rows)]


def _free_name(row: int, taken: set[str]) -> str:
    name = f"<row {row}>"
    while name in taken:
        name += "'"
    return name


class CTranslate2Engine:
    """A `SearchEngine` for a translator."""

    def __init__(self, engine: Any, facts: Facts, tokenizer: Tokenizer, *, device: str) -> None:
        """`engine` is a ctranslate2.Translator of the folder that the facts are of."""
        self.engine = engine
        self.facts = facts
        self.device = torch.device(device)
        self._end = tokenizer.target.require("end")
        self._read = token_names(tokenizer, facts.model.encoder.vocabulary)
        self._names = token_names(tokenizer.target, facts.model.decoder.vocabulary)
        self._ids = {name: id for id, name in enumerate(self._names)}

    batch_tokens = 16 * CHUNK

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probability of each token of the targets, and of the end, given its source."""
        both = [[self._reads(ids) for ids in sources], [self._named(ids) for ids in targets]]
        found = self.engine.score_batch(*both, max_batch_size=CHUNK, batch_type="tokens", max_input_length=0)
        return [list(each.log_probs) for each in found]

    def check(self, options: Options) -> None:
        if options.align:
            _refuse("align", "it gives no weights of all layers")
        if options.decoding.method == "sample":
            _refuse("method='sample'", "its samples cannot be repeated for one sentence")
        if options.decoding.method == "beam" and options.decoding.stop != "full":
            _refuse(f"stop={options.decoding.stop!r}", "its beams stop when they are full")

    def room(self, piece: Piece) -> int | None:
        positions = self.facts.model.decoder.positions
        match positions.kind:
            case "learned":
                return positions.longest - 1 - len(piece.mark) - len(piece.prefix)
            case "rotary":
                return None
            case _:
                return self.facts.positions - 1 - len(piece.mark)

    def attention(
        self,
        sources: list[list[int]],
        targets: list[list[int]],
        layer: int | None,
        marks: Sequence[Sequence[int]] = (),
    ) -> NoReturn:
        _refuse("align", "it gives no weights of all layers")

    def search(self, pieces: list[Piece], options: Options) -> Results:
        return search_in_batches(pieces, options, partial(self.decode, options=options), self.device)

    def decode(self, batch: list[Piece], options: Options) -> list[PieceResult]:
        self._check_pieces(batch)
        maximums = [min(piece.maximum, options.decoding.maximum) for piece in batch]
        found = self._search(batch, max(maximums) + 1, options)
        # The engine has one maximum for all, and ranks what was stopped there like what has ended. So whoever
        # went past his own, or was stopped, is searched again: for what has ended, and for what has not.
        late = [
            row
            for row, hypotheses in enumerate(found)
            if any(len(each.ids) > maximums[row] or not each.finished for each in hypotheses)
        ]
        for maximum in sorted({maximums[row] for row in late}):
            rows = [row for row in late if maximums[row] == maximum]
            pieces = [batch[row] for row in rows]
            ended = self._search(pieces, maximum + 1, options, patience=2)
            stopped = self._search(pieces, maximum, options, patience=2)
            for row, whole, cut in zip(rows, ended, stopped, strict=True):
                found[row] = _ordered(whole, cut)
        return [PieceResult(hypotheses[: options.decoding.n_best], None) for hypotheses in found]

    def _check_pieces(self, batch: list[Piece]) -> None:
        if any(piece.prefix for piece in batch):
            _refuse("prefixes", "it counts them in the length that scores are divided by")
        positions = self.facts.model.encoder.positions
        rows = positions.longest if positions.kind == "learned" else self.facts.positions
        longest = max(len(piece.ids) for piece in batch)
        if longest > rows and positions.kind != "rotary":
            raise ValueError(
                f"an input of {longest} tokens, but {rows} positions were exported: translate with "
                "too_long='split', or with --engine regard"
            )

    def _search(
        self, batch: list[Piece], steps: int, options: Options, patience: int = 1
    ) -> list[list[Hypothesis]]:
        """All hypotheses of each piece, best first. `steps` are tokens, an end counted; with a patience of 2
        none of those that come to so many is lost."""
        if steps == 0:
            return [[Hypothesis((), 0.0, 0.0, finished=False)] for _ in batch]
        config = options.decoding
        beam, penalty = (config.beam, config.length_penalty) if config.method == "beam" else (1, 0.0)
        marked = len(batch[0].mark)  # which it counts in every length
        results = self.engine.translate_batch(
            [self._reads(piece.ids) for piece in batch],
            target_prefix=[self._named(piece.mark) for piece in batch] if marked else None,
            max_batch_size=CHUNK,
            batch_type="tokens",
            max_input_length=0,
            beam_size=beam,
            patience=patience,
            num_hypotheses=beam * patience if beam > 1 else 1,
            length_penalty=penalty,
            min_decoding_length=config.minimum + marked,
            max_decoding_length=steps + marked,
            no_repeat_ngram_size=config.no_repeat,
            repetition_penalty=config.repetition_penalty,
            suppress_sequences=[[self._names[id]] for id in options.suppressed],
            return_end_token=True,  # so that it counts in the length
            return_scores=True,
        )
        return [self._hypotheses(result, penalty, config.length_penalty, marked) for result in results]

    def _hypotheses(self, result: Any, divided: float, penalty: float, marked: int) -> list[Hypothesis]:
        """`divided` is the penalty that the engine's scores have in them, in a length that counts what stands
        before a translation for its language: `marked` tokens."""
        end = self._names[self._end]
        found = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            finished = tokens[-1] == end
            ids = tuple(self._ids[token] for token in (tokens[:-1] if finished else tokens)[marked:])
            total = score * len(tokens) ** divided
            found.append(Hypothesis(ids, total, rank(total, len(tokens) - marked, penalty), finished))
        return found

    def _named(self, ids: Sequence[int]) -> list[str]:
        return [self._names[id] for id in ids]

    def _reads(self, ids: Sequence[int]) -> list[str]:
        return [self._read[id] for id in ids]


def _ordered(whole: list[Hypothesis], cut: list[Hypothesis]) -> list[Hypothesis]:
    """What has ended, and behind it what was stopped and has not ended after all."""
    ended = [each for each in whole if each.finished]
    done = {each.ids for each in ended}
    return ended + [each for each in cut if not each.finished and each.ids not in done]


def _refuse(what: str, why: str) -> NoReturn:
    raise ConfigError(f"{what}: not with CTranslate2, {why}; translate with --engine regard")


def open_deployed(folder: Path, *, device: str = "auto", precision: Precision | None = None) -> Translator:
    """An exported folder, ready for use, in the precision it was exported in unless told otherwise."""
    ctranslate2 = library()
    facts = read_facts(folder)
    place = _place(ctranslate2, device)
    kind, _, number = place.partition(":")
    if precision is not None and precision not in ctranslate2.get_supported_compute_types(kind):
        raise ConfigError(
            f"precision={precision!r} is not computed by CTranslate2 on this {kind}: leave it out"
        )
    threads = torch.get_num_threads() if kind == "cpu" else 1
    try:
        how = {"device": kind, "device_index": int(number or 0), "compute_type": precision or "default"}
        engine = ctranslate2.Translator(str(folder), inter_threads=threads, intra_threads=1, **how)
        tokenizer = Tokenizer.load(folder)
        with torch.device("meta"):
            shape = Seq2Seq(facts.model)  # no weights: the engine has them
        own = CTranslate2Engine(engine, facts, tokenizer, device=place)
        about: Any = {"longest": facts.longest, "languages": facts.languages, "decoding": facts.decode}
        others = ("several_sentences", "marks", "source_language", "fuzzy", "inline", "calibration")
        about |= {name: getattr(facts, name) for name in others}
        about |= {"prompts": {each.name: each.text for each in facts.prompts}}
        return Translator(shape, tokenizer, engine=own, default_prompt=facts.default_prompt, **about)
    except (RuntimeError, ValueError) as error:
        raise FolderError(f"{folder}: cannot be opened ({error}); export the model anew") from error


def _place(ctranslate2: Any, wanted: str) -> str:
    count = ctranslate2.get_cuda_device_count()
    if wanted == "auto":
        return "cuda" if count else "cpu"
    kind, _, number = wanted.partition(":")
    if kind not in ("cpu", "cuda") or not (number or "0").isdecimal():
        raise ValueError(f"device={wanted!r} is not known: choose auto, cpu or cuda")
    if kind == "cuda" and int(number or 0) >= count:
        raise ValueError(f"device={wanted!r} is not there for CTranslate2: choose cpu, or leave it out")
    return wanted
