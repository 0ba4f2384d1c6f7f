"""`/openapi.json`: every endpoint with its fields, and an example of a request and its answer.

tests/serve/test_openapi.py sends every example.
"""

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from regard.serve.doors import Door
from regard.serve.endpoint import (
    MESSAGES,
    MODEL,
    NUMBER,
    OBJECT,
    PROMPT,
    SCHEMAS,
    TEXT,
    TEXTS,
    TOO_LONG,
    TRUNCATE,
    TRUTH,
    WHOLE,
    Endpoint,
)
from regard.serve.translation_endpoints import DEEPL, LIBRETRANSLATE

ENDPOINTS: Sequence[Endpoint] = (
    Endpoint(
        path="/v1/translate",
        door="regard",
        about="Translations, with scores and, if asked for, alternatives and which word came from which; "
        "matches, where the service has a memory",
        fields={
            "texts": (TEXTS, "what is to be translated (needed)"),
            **MODEL,
            "source": (TEXT, "its language"),
            "target": (TEXT, "the language wanted: chooses the model, where none is named"),
            "beam": (WHOLE, "hypotheses that are followed; 1 is greedy"),
            "n_best": (WHOLE, "how many translations come back of each text"),
            "length_penalty": (NUMBER, "above 0, longer ones are preferred"),
            "align": (TRUTH, "whether words are aligned"),
            "split": (TEXT, "auto, always or never: texts of several sentences"),
            "suppressed": (TEXTS, "words that are never written"),
            **PROMPT,
        },
        asked={"texts": "Where is the station?", "target": "de"},
        answered={
            "model": "en-de",
            "result": {
                "source": "Where is the station?",
                "text": "Wo ist der Bahnhof?",
                "score": -0.42,
                "ranking": -0.07,
                "finished": True,
                "confidence": 0.93,
                "pieces": 1,
                "unknown": 0,
            },
        },
    ),
    Endpoint(
        path="/v1/classify",
        door="regard",
        about="Labels with their probabilities",
        fields={
            "texts": (TEXTS, "what is to be classified (needed)"),
            "seconds": (TEXTS, "for classifiers of pairs: the second text of each"),
            **MODEL,
            **TOO_LONG,
        },
        asked={"texts": ["A moving, funny film."]},
        answered={
            "model": "sentiment",
            "results": [
                {
                    "label": "positive",
                    "labels": ["positive"],
                    "probability": 0.98,
                    "probabilities": {"negative": 0.02, "positive": 0.98},
                }
            ],
        },
    ),
    Endpoint(
        path="/v1/tag",
        door="regard",
        about="A tag for each word, and the names that they mark",
        fields={"texts": ("any", "a text, a list of texts, or a list of lists of words (needed)"), **MODEL},
        asked={"texts": "Bob met Ann ."},
        answered={
            "model": "entities",
            "result": {
                "words": ["Bob", "met", "Ann", "."],
                "tags": ["B-PER", "O", "B-PER", "O"],
                "probabilities": [0.99, 0.99, 0.99, 0.99],
                "spans": [
                    {"label": "PER", "start": 0, "end": 1, "text": "Bob"},
                    {"label": "PER", "start": 2, "end": 3, "text": "Ann"},
                ],
            },
        },
    ),
    Endpoint(
        path="/v1/answer",
        door="regard",
        about="Where a text answers a question",
        fields={
            "questions": (TEXTS, "what is asked (needed)"),
            "contexts": (TEXTS, "where the answer is; one for all questions, or one for each (needed)"),
            "n_best": (WHOLE, "how many spans come back"),
            **MODEL,
        },
        asked={
            "questions": "Who met Bob?",
            "contexts": "On Monday, Ann Leeson met Bob in Rome.",
            "n_best": 1,
        },
        answered={
            "model": "answers",
            "result": {
                "question": "Who met Bob?",
                "answer": {"text": "Ann Leeson", "start": 11, "end": 21, "probability": 0.99, "score": 13.7},
                "none": 0.0,
                "spans": [{"text": "Ann Leeson", "start": 11, "end": 21, "probability": 0.99, "score": 13.7}],
            },
        },
    ),
    Endpoint(
        path="/v1/embed",
        door="regard",
        about="Vectors",
        fields={
            "texts": (TEXTS, "what is to be embedded (needed)"),
            "dimensions": (WHOLE, "so many of the first numbers"),
            **PROMPT,
            **MODEL,
            **TOO_LONG,
        },
        asked={"texts": ["A dog barks."]},
        answered={"model": "minilm", "results": [{"vector": [0.013, -0.052, 0.071]}]},
    ),
    Endpoint(
        path="/v1/fill",
        door="regard",
        about="What stands at [MASK]",
        fields={
            "texts": (TEXTS, "with at least one [MASK] each (needed)"),
            "top": (WHOLE, "candidates of each"),
            **MODEL,
        },
        asked={"texts": "The cat [MASK] on the mat.", "top": 1},
        answered={
            "model": "bert",
            "result": {
                "text": "The cat sat on the mat.",
                "candidates": [[{"token": "sat", "probability": 0.66, "text": "The cat sat on the mat."}]],
            },
        },
    ),
    Endpoint(
        path="/v1/about",
        door="regard",
        method="get",
        about="What is served: models, languages and limits",
        fields={},
        asked={},
        answered={
            "models": [{"name": "en-de", "task": "translate", "noun": "translator"}],
            "pairs": [{"model": "en-de", "source": "en", "target": "de", "aligns": True}],
            "limits": {
                "texts": 256,
                "characters": 100_000,
                "body": 2_000_000,
                "alternatives": 8,
                "max_tokens": 2048,
            },
        },
    ),
    Endpoint(
        path="/v1/embeddings",
        door="openai",
        about="Vectors, as OpenAI's clients ask for them; texts only, token ids are refused",
        fields={
            "input": (TEXTS, "what is to be embedded (needed)"),
            "model": (TEXT, "its name; any, where one embedder is served"),
            "encoding_format": (TEXT, "float or base64"),
            "dimensions": (WHOLE, "so many of the first numbers, of length 1 again"),
            **PROMPT,
        },
        asked={"input": "A dog barks.", "model": "minilm"},
        answered={
            "object": "list",
            "data": [{"object": "embedding", "index": 0, "embedding": [0.013, -0.052, 0.071]}],
            "model": "minilm",
            "usage": {"prompt_tokens": 6, "total_tokens": 6},
        },
    ),
    Endpoint(
        path="/v1/completions",
        door="openai",
        about="What follows a prompt; with stream=true as events, token by token",
        fields={
            "prompt": (TEXTS, "(needed)"),
            "model": (TEXT, "its name; any, where one language model is served"),
            "max_tokens": (WHOLE, "that may follow"),
            "temperature": (NUMBER, "0 is greedy"),
            "top_p": (NUMBER, "samples come from the likeliest tokens that have this probability together"),
            "n": (WHOLE, "texts for each prompt"),
            "stop": (TEXTS, "where a text ends"),
            "seed": (WHOLE, "the same one gives the same texts"),
            "stream": (TRUTH, "whether texts come token by token, each with the index of its choice"),
            "logprobs": (WHOLE, "whether the log-probability of each token comes back"),
            "echo": (TRUTH, "whether the prompt comes back too"),
        },
        asked={"prompt": "ROMEO: But, soft!", "max_tokens": 3, "temperature": 0},
        answered={
            "id": "cmpl-6de13c2942516494211c981a",
            "object": "text_completion",
            "created": 1794854211,
            "model": "verse",
            "choices": [
                {
                    "index": 0,
                    "text": " what light through yonder",
                    "finish_reason": "length",
                    "logprobs": None,
                }
            ],
            "usage": {"prompt_tokens": 6, "completion_tokens": 3, "total_tokens": 9},
        },
    ),
    Endpoint(
        path="/v1/chat/completions",
        door="openai",
        about="The answer to messages, by the model's chat template; with stream=true as events",
        fields={
            "messages": (MESSAGES, "each has a role (system, user, assistant) and content (needed)"),
            "model": (TEXT, "its name; any, where one language model is served"),
            "max_tokens": (WHOLE, "that may follow; max_completion_tokens is the same"),
            "max_completion_tokens": (WHOLE, "as max_tokens"),
            "temperature": (NUMBER, "0 is greedy"),
            "top_p": (NUMBER, "samples come from the likeliest tokens that have this probability together"),
            "n": (WHOLE, "answers"),
            "stop": (TEXTS, "where an answer ends"),
            "seed": (WHOLE, "the same one gives the same answer"),
            "stream": (TRUTH, "whether answers come token by token"),
            "stream_options": (OBJECT, "include_usage=true: the numbers of tokens, at the end of a stream"),
            "chat_template_kwargs": (OBJECT, 'variables of the chat template, {"enable_thinking": false}'),
        },
        asked={
            "messages": [{"role": "user", "content": "But, soft!"}],
            "max_tokens": 3,
            "temperature": 0,
        },
        answered={
            "id": "chatcmpl-6de13c2942516494211c981a",
            "object": "chat.completion",
            "created": 1794854211,
            "model": "verse",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": " what light through", "refusal": None},
                    "finish_reason": "length",
                    "logprobs": None,
                }
            ],
            "usage": {"prompt_tokens": 6, "completion_tokens": 3, "total_tokens": 9},
        },
    ),
    Endpoint(
        path="/v1/models",
        door="openai",
        method="get",
        about="The models that are served",
        fields={},
        asked={},
        answered={
            "object": "list",
            "data": [{"id": "en-de", "object": "model", "created": 1794853874, "owned_by": "regard"}],
        },
    ),
    Endpoint(
        path="/v1/models/{name}",
        door="openai",
        method="get",
        about="One of them",
        fields={},
        asked={"name": "en-de"},
        answered={"id": "en-de", "object": "model", "created": 1794853874, "owned_by": "regard"},
    ),
    Endpoint(
        path="/embed",
        door="tei",
        about="Vectors, as clients of Text Embeddings Inference ask for them",
        fields={
            "inputs": (TEXTS, "what is to be embedded (needed)"),
            "normalize": (TRUTH, "whether vectors have length 1; they have, unless this is false"),
            "dimensions": (WHOLE, "so many of the first numbers, of length 1 again"),
            "prompt_name": PROMPT["prompt"],
            **TRUNCATE,
        },
        asked={"inputs": ["A dog barks."]},
        answered=[[0.013, -0.052, 0.071]],
    ),
    Endpoint(
        path="/predict",
        door="tei",
        about="Labels of texts or pairs, likeliest first",
        fields={
            "inputs": ("any", "a text, a pair, or a list of lists of one or two texts (needed)"),
            **TRUNCATE,
        },
        asked={"inputs": "A moving, funny film."},
        answered=[{"score": 0.98, "label": "positive"}, {"score": 0.02, "label": "negative"}],
    ),
    Endpoint(
        path="/similarity",
        door="tei",
        about="Cosines of one text with others",
        fields={
            "inputs": ("any", "source_sentence, and sentences, a list (needed)"),
            "parameters": ("any", "an object, with truncate and truncation_direction as /embed has them"),
        },
        asked={"inputs": {"source_sentence": "A dog barks.", "sentences": ["A hound bays.", "It rains."]}},
        answered=[0.64, 0.12],
    ),
    Endpoint(
        path="/rerank",
        door="tei",
        about="Texts, those that answer best first",
        fields={
            "query": (TEXT, "(needed)"),
            "texts": (TEXTS, "(needed)"),
            "return_text": (TRUTH, "whether the texts come back too"),
            "raw_scores": (TRUTH, "of a reranker: its scores without the sigmoid behind them"),
            **TRUNCATE,
        },
        asked={"query": "a cat", "texts": ["a dog", "a kitten"]},
        answered=[{"index": 1, "score": 0.77}, {"index": 0, "score": 0.52}],
    ),
    Endpoint(
        path="/v1/rerank",
        door="tei",
        about="The same, as Cohere's clients ask for it",
        fields={
            "query": (TEXT, "(needed)"),
            "documents": ("any", "a list of texts, or of objects with a text (needed)"),
            "top_n": (WHOLE, "how many come back"),
            "return_documents": (TRUTH, "whether the texts come back too"),
            **MODEL,
        },
        asked={"query": "a cat", "documents": ["a dog", "a kitten"], "top_n": 1},
        answered={"results": [{"index": 1, "relevance_score": 0.77}], "model": ""},
    ),
    Endpoint(
        path="/info",
        door="tei",
        method="get",
        about="What is served, as Text Embeddings Inference says it",
        fields={},
        asked={},
        answered={
            "model_id": "minilm",
            "model_dtype": "float32",
            "model_type": {"embed": {}},
            "max_input_length": 256,
            "max_client_batch_size": 256,
            "max_concurrent_requests": 512,
            "models": ["minilm"],
        },
    ),
    *LIBRETRANSLATE,
    *DEEPL,
)

REFUSED = {
    "400": "something is wrong with the request; the message says what, and what would be right",
    "401": "the service wants a key, and none that it knows came",
    "413": "larger than the service takes",
    "429": "too many are waiting: Retry-After says in how many seconds to come back",
    "503": "not answered in time, or the service is ending",
}


def describe(doors: Iterable[Door]) -> dict[str, Any]:
    """The document, as OpenAPI 3.1 has it; what is not described here (--look) is named."""
    known = {(each.method, each.path): each for each in ENDPOINTS}
    paths: dict[str, dict[str, Any]] = {}
    for door in doors:
        for way in door.ways:
            method = way.method.lower()
            each = known.get((method, way.path))
            operation = _named(door.name, method, way.path) if each is None else _operation(each)
            paths.setdefault(way.path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "regard",
            "version": version("regard"),
            "description": "Models behind HTTP; requests of all callers are packed together.",
        },
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
    }


def _named(door: str, method: str, path: str) -> dict[str, Any]:
    answers: dict[str, Any] = {code: {"description": why} for code, why in REFUSED.items()}
    return {
        "operationId": f"{method} {path}",
        "tags": [door],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": TEXT}}
            for name in re.findall(r"{(\w+)}", path)
        ],
        "responses": {"200": {"description": "the answer"}, **answers},
    }


def _operation(each: Endpoint) -> dict[str, Any]:
    found = {**_named(each.door, each.method, each.path), "summary": each.about}
    answer = found["responses"].pop("200")
    if each.answered is not None:
        answer["content"] = {each.media: {"schema": {}, "example": each.answered}}
    found["responses"] = {str(each.status): answer, **found["responses"]}
    for parameter in found["parameters"]:
        parameter["example"] = each.asked[parameter["name"]]
    needed = [name for name, (_, about) in each.fields.items() if about.endswith("(needed)")]
    if each.method in ("get", "delete"):
        for name, about in each.fields.items():
            own = {"name": name, "in": "query", "required": name in needed, "schema": _schema(*about)}
            given = {"example": each.asked[name]} if name in each.asked else {}
            found["parameters"].append({**own, **given})
        return found
    properties = {name: _schema(*about) for name, about in each.fields.items()}
    schema = {"type": "object", "properties": properties, "required": needed}
    sent = {name: value for name, value in each.asked.items() if name not in each.in_path}
    kind = "multipart/form-data" if each.form else "application/json"
    found["requestBody"] = {"required": True, "content": {kind: {"schema": schema, "example": sent}}}
    return found


def _schema(kind: str, about: str) -> dict[str, Any]:
    return {**SCHEMAS.get(kind, {"type": kind}), "description": about}
