"""Text Embeddings Inference's: vectors, labels, similarities and rankings; and Cohere's /v1/rerank.

A pair is ranked by a classifier of pairs, where one is served (its number, or its last label), else by the
cosine of vectors.
"""

from typing import Any

import numpy as np
from starlette.responses import Response

from regard.serve.asking import Ask, Json
from regard.serve.doors import Door, Way
from regard.serve.line import RefusedError

TYPES = {413: "Validation", 422: "Tokenizer", 429: "Overloaded", 503: "Unhealthy"}


async def embed(ask: Ask) -> Response:
    texts, _ = ask.texts("inputs")
    if not texts or not all(texts):
        raise RefusedError("inputs should hold texts, none of them empty", 422)
    vectors = await _vectors(ask, texts, unit=ask.value("normalize", bool, True))
    return Json([*vectors])


async def _vectors(ask: Ask, texts: list[str], *, unit: bool = True) -> np.ndarray:
    served = ask.service.models.named(ask.value("model", str), ["embed"])
    too_long = "cut" if ask.value("truncate", bool, False) else "error"
    found = await ask.service.read(served, ask.caller, "embed", texts, too_long=too_long, normalised=unit)
    return np.stack(found)


async def predict(ask: Ask) -> Response:
    value = ask.fields.get("inputs")
    several = isinstance(value, list)
    items: list[Any] = value if isinstance(value, list) else [value]
    if several and len(items) == 2 and all(isinstance(each, str) for each in items):
        items, several = [items], False  # one pair, as TEI reads it
    pairs = [[each] if isinstance(each, str) else each for each in items]
    if not all(isinstance(each, list) and 1 <= len(each) <= 2 for each in pairs) or not all(
        isinstance(text, str) for each in pairs for text in each
    ):
        raise RefusedError("inputs should be a text, a pair of texts, or a list of lists of one or two", 422)
    ask.check_texts([text for each in pairs for text in each])
    served = ask.service.models.named(ask.value("model", str), ["classify"])
    widths = {len(each) for each in pairs}
    if len(widths) > 1:
        raise RefusedError("inputs holds both single texts and pairs: send them apart", 422)
    lists = [[each[place] for each in pairs] for place in range(widths.pop() if widths else 1)]
    found = await ask.service.read(served, ask.caller, "classify", *lists, too_long="cut")
    answers = [
        [
            {"score": score, "label": label}
            for label, score in sorted(each.probabilities.items(), key=lambda item: -item[1])
        ]
        for each in found
    ]
    return Json(answers if several else answers[0])


async def similarity(ask: Ask) -> Response:
    inputs = ask.value("inputs", dict)
    if not isinstance(inputs, dict) or not isinstance(inputs.get("source_sentence"), str):
        raise RefusedError("inputs should have source_sentence, a text, and sentences, a list of them", 422)
    sentences = inputs.get("sentences")
    if not isinstance(sentences, list) or not all(isinstance(each, str) for each in sentences):
        raise RefusedError("inputs.sentences should be a list of texts", 422)
    texts = [inputs["source_sentence"], *sentences]
    ask.check_texts(texts)
    vectors = await _vectors(ask, texts)
    return Json([float(score) for score in vectors[1:] @ vectors[0]])


async def rerank(ask: Ask) -> Response:
    texts, _ = ask.texts("texts")
    scores = await _ranked(ask, ask.value("query", str, ""), texts)
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
    scores = await _ranked(ask, ask.value("query", str, ""), documents)
    most = ask.whole("top_n", len(documents), 10_000)
    order = sorted(range(len(documents)), key=lambda index: -scores[index])[:most]
    full = ask.value("return_documents", bool, False)
    results = [
        {"index": i, "relevance_score": scores[i], **({"document": {"text": documents[i]}} if full else {})}
        for i in order
    ]
    return Json({"results": results, "model": ask.value("model", str, "")})


async def _ranked(ask: Ask, query: str, texts: list[str]) -> list[float]:
    if not query:
        raise RefusedError("query should be a text, not an empty one", 422)
    ask.check_texts([query, *texts])
    models, name = ask.service.models, ask.value("model", str)
    served = next((each for each in models.of("embed", "classify") if each.name == name), None)
    served = served or next(iter([*models.of("embed"), *models.of("classify")]), None)
    if served is None:
        raise RefusedError(
            "no model that ranks is served here: it takes an embedder, or a classifier of pairs"
        )
    if served in models.of("embed"):
        vectors = np.stack(
            await ask.service.read(served, ask.caller, "embed", [query, *texts], too_long="windows")
        )
        return [float(score) for score in vectors[1:] @ vectors[0]]
    found = await ask.service.read(
        served, ask.caller, "classify", [query] * len(texts), texts, too_long="cut"
    )
    return [float([*each.probabilities.values()][-1]) for each in found]


async def info(ask: Ask) -> Response:
    served = next((each for each in ask.service.models if each.task in ("embed", "classify")), None)
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
