"""Text Embeddings Inference's: vectors, labels, similarities and rankings; and Cohere's /v1/rerank.

A pair is ranked by a reranker, where one is served; else by the cosine of vectors (their dot product, if the
model says so), or by a classifier of pairs (its number, or its last label). A reranker's score is a
probability, its sigmoid, unless `raw_scores` are asked for. What is too long for a model is cut with
`truncate`, and refused without; where a request does not say, /embed and /similarity refuse it, labels are
of its beginning, and rankings are of all of it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from starlette.responses import Response

from regard.serve.asking import Ask, Json, unless_small
from regard.serve.doors import Door, Way
from regard.serve.line import RefusedError
from regard.serve.models import Served
from regard.tasks.base.reading import cut
from regard.tasks.embedding.embedder import shortened
from regard.tasks.reranking.reranker import sigmoid
from regard.text import DataError
from regard.text.encoding import Encoding

RANKING = ("rerank", "embed", "classify")
"""Tasks whose models can rank; the first that is served does, unless another is named."""
NUMBER = "LABEL_0"
"""What the number of a regression is called, as Text Embeddings Inference has it."""
TYPES = {413: "Validation", 422: "Tokenizer", 429: "Overloaded", 503: "Unhealthy"}


async def embed(ask: Ask) -> Response:
    texts, _ = ask.texts("inputs")
    if not texts or not all(texts):
        raise RefusedError("inputs should hold texts, none of them empty", 422)
    unit = ask.value("normalize", bool, True)
    vectors = await _vectors(ask, texts, ask.fields, normalised=unit)
    if ask.fields.get("dimensions") is not None:
        vectors = shortened(vectors, ask.whole("dimensions", 0, vectors.shape[1]), unit=unit)
    return Json([*vectors])


async def _vectors(
    ask: Ask, texts: list[str], fields: Mapping[str, Any], *, normalised: bool = True
) -> np.ndarray:
    served = ask.service.models.named(ask.value("model", str), ["embed"])
    prompt = ask.prompt(served, "prompt_name")
    found = await _read(ask, served, "embed", [texts], fields, "error", normalised=normalised, prompt=prompt)
    return np.stack(found)


async def _read(
    ask: Ask,
    served: Served,
    method: str,
    lists: list[list[str]],
    fields: Mapping[str, Any],
    default: Literal["cut", "windows", "error"],
    **settings: Any,
) -> list[Any]:
    """What is too long is cut, at either end, or refused, as the fields have it; or else the default."""
    truncate = ask.value("truncate", bool, None, fields)
    too_long = default if truncate is None else "cut" if truncate else "error"
    side = ask.value("truncation_direction", str, "Right", fields)
    if side.lower() not in ("left", "right"):
        raise RefusedError(f"truncation_direction={side!r:.40} is none of Left, Right", 422)
    if too_long == "cut" and side.lower() == "left":
        size = sum(len(text) for texts in lists for text in texts)
        lists = await unless_small(ask, size, partial(_ends, served.predictor, lists))
    try:
        return await ask.predict(served, method, *lists, too_long=too_long, **settings)
    except DataError as error:
        raise RefusedError(
            f"inputs: {error.reason} {error.particulars}; shorten it, or send truncate: true", 413
        ) from error


def _ends(predictor: Any, lists: list[list[str]]) -> list[list[str]]:
    rows = [_end(predictor, texts) for texts in zip(*lists, strict=True)]
    return [[row[place] for row in rows] for place in range(len(lists))]


def _end(predictor: Any, texts: Sequence[str]) -> Sequence[str]:
    """The last words of a text, or of a pair, that the model can read: as many tokens as it would read of the
    beginning, but no part of a word."""
    encoding: Encoding = predictor.tokenizer.encode(*texts, template="cls")
    if len(encoding) <= predictor.longest:
        return texts
    kept = Counter(encoding.texts[place] for place in cut(encoding, predictor.longest))
    found = []
    for number, text in enumerate(texts):
        own = [place for place, each in enumerate(encoding.texts) if each == number]
        last = own[len(own) - kept[number] :]
        whole = [each for each in last if encoding.words[each] != encoding.words[each - 1]] or last
        found.append(text if len(last) == len(own) else text[encoding.offsets[whole[0]][0] :])
    return found


async def predict(ask: Ask) -> Response:
    rows, several = _rows(ask.fields.get("inputs"))
    ask.check_texts([text for each in rows for text in each])
    served = ask.service.models.named(ask.value("model", str), ["classify"])
    widths = {len(each) for each in rows}
    if len(widths) > 1:
        raise RefusedError("inputs holds both single texts and pairs: send them apart", 422)
    lists = [[each[place] for each in rows] for place in range(widths.pop() if widths else 1)]
    _raw(ask, served, _instead(served))
    found = await _read(ask, served, "classify", lists, ask.fields, "cut")
    told = [each.probabilities or {NUMBER: each.value} for each in found]
    answers = [
        [{"score": score, "label": label} for label, score in sorted(each.items(), key=lambda item: -item[1])]
        for each in told
    ]
    return Json(answers if several else answers[0])


def _raw(ask: Ask, served: Served, instead: str | None) -> bool:
    """Whether numbers are asked for as the model gives them; some have others `instead`."""
    raw: bool = ask.value("raw_scores", bool, False)
    if raw and instead is not None:
        raise RefusedError(f"raw_scores: {served.name} gives {instead} alone; leave it out", 422)
    return raw


def _instead(classifier: Served) -> str | None:
    return None if classifier.predictor.problem == "number" else "probabilities"


def _rows(value: Any) -> tuple[list[list[str]], bool]:
    """A text, alone or in a list, and a pair are one; a list of such lists is several."""
    given = [value] if isinstance(value, str) else value
    one = isinstance(given, list) and bool(given) and all(isinstance(each, str) for each in given)
    rows = [given] if one else given
    if not (
        isinstance(rows, list)
        and all(isinstance(each, list) and 1 <= len(each) <= 2 for each in rows)
        and all(isinstance(text, str) for each in rows for text in each)
    ):
        raise RefusedError("inputs should be a text, a pair of texts, or a list of lists of one or two", 422)
    return rows, not one


async def similarity(ask: Ask) -> Response:
    inputs = ask.value("inputs", dict)
    if not isinstance(inputs, dict) or not isinstance(inputs.get("source_sentence"), str):
        raise RefusedError("inputs should have source_sentence, a text, and sentences, a list of them", 422)
    sentences = inputs.get("sentences")
    if not isinstance(sentences, list) or not all(isinstance(each, str) for each in sentences):
        raise RefusedError("inputs.sentences should be a list of texts", 422)
    texts = [inputs["source_sentence"], *sentences]
    ask.check_texts(texts)
    vectors = await _vectors(ask, texts, {**ask.fields, **ask.value("parameters", dict, {})})
    return Json([float(score) for score in vectors[1:] @ vectors[0]])


async def rerank(ask: Ask) -> Response:
    texts, _ = ask.texts("texts")
    _, scores = await _ranked(ask, ask.value("query", str, ""), texts)
    full = ask.value("return_text", bool, False)
    order = sorted(range(len(texts)), key=lambda index: -scores[index])
    return Json([{"index": i, "score": scores[i], **({"text": texts[i]} if full else {})} for i in order])


async def cohere(ask: Ask) -> Response:
    value = ask.fields.get("documents")
    items = value if isinstance(value, list) else []
    found = [each.get("text") if isinstance(each, dict) else each for each in items]
    documents = [each for each in found if isinstance(each, str)]
    if not documents or len(documents) < len(found):
        raise RefusedError("documents should be a list of texts, or of objects with a text")
    served, scores = await _ranked(ask, ask.value("query", str, ""), documents)
    most = ask.whole("top_n", len(documents), 10_000)
    order = sorted(range(len(documents)), key=lambda index: -scores[index])[:most]
    full = ask.value("return_documents", bool, False)
    results = [
        {"index": i, "relevance_score": scores[i], **({"document": {"text": documents[i]}} if full else {})}
        for i in order
    ]
    return Json({"results": results, "model": served.name})


def _ranking(ask: Ask) -> Served:
    """The model that is named, or the first; where there is one alone, it goes by any name: clients have
    some of their own in their code."""
    name = ask.value("model", str)
    every = [each for task in RANKING for each in ask.service.models.of(task)]
    if not every:
        raise RefusedError(
            "no model that ranks is served here: it takes a reranker, an embedder, or a classifier of pairs"
        )
    found = [each for each in every if name in (None, "", each.name)] or (every if len(every) == 1 else [])
    if not found:
        there = ", ".join(each.name for each in every)
        raise RefusedError(f"no model {name!r:.60} ranks here: there are {there}", 404)
    return found[0]


async def _ranked(ask: Ask, query: str, texts: list[str]) -> tuple[Served, list[float]]:
    if not query:
        raise RefusedError("query should be a text, not an empty one", 422)
    ask.check_texts([query, *texts])
    served = _ranking(ask)
    return served, await _scored(ask, served, query, texts)


async def _scored(ask: Ask, served: Served, query: str, texts: list[str]) -> list[float]:
    pairs, models = [[query] * len(texts), texts], ask.service.models
    if served in models.of("rerank"):
        raw = _raw(ask, served, None)
        scores = np.array(await _read(ask, served, "scores", pairs, ask.fields, "windows", raw=True))
        return (scores if raw else sigmoid(scores)).tolist()
    if served in models.of("embed"):
        _raw(ask, served, "similarities")
        asked, searched = (served.predictor.prompt_of(side) for side in ("query", "passage"))
        read = partial(_read, ask, served, "embed", normalised=_unit(served))
        if asked == searched:
            vectors = np.stack(await read([[query, *texts]], ask.fields, "windows", prompt=asked))
            return [float(score) for score in vectors[1:] @ vectors[0]]
        [vector] = await read([[query]], ask.fields, "windows", prompt=asked)
        found = await read([texts], ask.fields, "windows", prompt=searched)
        return [float(score) for score in np.stack(found) @ vector] if texts else []
    _raw(ask, served, _instead(served))
    found = await _read(ask, served, "classify", pairs, ask.fields, "cut")
    last = served.predictor.labels[-1] if served.predictor.labels else ""
    return [float(each.probabilities.get(last, each.value)) for each in found]


def _unit(served: Served) -> bool | None:
    """Whether vectors are read with length 1, so that their products are cosines; those of a model that was
    trained for the dot product are as it has them."""
    if getattr(served.predictor.reader.model.config.head, "similarity", "cosine") == "dot":
        return None
    served.predictor.check_cosine()
    return True


async def info(ask: Ask) -> Response:
    served = next((each for each in ask.service.models if each.task in RANKING), None)
    limits = ask.service.limits
    return Json(
        {
            "model_id": None if served is None else served.name,
            "model_dtype": None if served is None else served.predictor.precision,
            "model_type": None if served is None else {served.task: {}},
            "max_input_length": None if served is None else served.predictor.longest,
            "max_client_batch_size": limits.texts,
            "max_concurrent_requests": limits.waiting,
            "models": [each.name for each in ask.service.models],
        }
    )


TEI = Door(
    "tei",
    lambda why, status: {"error": why, "error_type": TYPES.get(status, "Backend")},
    [
        Way("POST", "/embed", embed),
        Way("POST", "/predict", predict),
        Way("POST", "/similarity", similarity),
        Way("POST", "/rerank", rerank),
        Way("POST", "/v1/rerank", cohere),
        Way("GET", "/info", info),
    ],
)
