"""regard's own door: everything that the Python API returns."""

from typing import Any

from starlette.responses import Response

from regard.serve.asking import Ask, Json
from regard.serve.doors import Door, Way
from regard.serve.line import RefusedError
from regard.serve.models import Served
from regard.tasks.registry import get_task


async def translate(ask: Ask) -> Response:
    texts, several = ask.texts("texts")
    source, target = (ask.value(key, str) for key in ("source", "target"))
    served = ask.translator(source, target)
    decoding = {
        "beam": ask.whole("beam", served.predictor.decoding.beam, 16),
        "n_best": ask.whole("n_best", 1, ask.service.limits.alternatives),
        "length_penalty": ask.number("length_penalty", None, -10, 10),
    }
    found = await ask.service.translate_remembering(
        served,
        ask.caller,
        texts,
        source=source,
        target=target,
        decoding=decoding,
        align=ask.value("align", bool, False),
        split=ask.value("split", str, "auto"),
        suppressed=tuple(ask.texts("suppressed", needed=False)[0]),
        prompt=ask.prompt(served),
        deadline=ask.deadline,
    )
    return _results(served.name, [each.to_dict() for each in found], several)


async def classify(ask: Ask) -> Response:
    texts, several = ask.texts("texts")
    seconds, _ = ask.texts("seconds", needed=False)
    if seconds and len(seconds) != len(texts):
        raise RefusedError(f"{len(seconds)} seconds for {len(texts)} texts: give one for each")
    served = ask.service.models.named(ask.value("model", str), ["classify"])
    lists = (texts, seconds) if seconds else (texts,)
    found = await ask.predict(served, "classify", *lists, too_long=_too_long(ask, "cut"))
    return _results(served.name, [each.to_dict() for each in found], several)


async def tag(ask: Ask) -> Response:
    value = ask.fields.get("texts")
    if isinstance(value, list) and value and all(isinstance(each, list) for each in value):
        words = [word for each in value for word in each]
        if not all(isinstance(word, str) for word in words):
            raise RefusedError("texts should be texts, or lists of words")
        ask.check_texts([" ".join(each) for each in value])
        sentences: list[Any] = [tuple(each) for each in value]
        several = True
    else:
        sentences, several = ask.texts("texts")
    served = ask.service.models.named(ask.value("model", str), ["tag"])
    found = await ask.predict(served, "tag", sentences)
    return _results(served.name, [each.to_dict() for each in found], several)


async def answer(ask: Ask) -> Response:
    questions, several = ask.texts("questions")
    contexts, _ = ask.texts("contexts")
    contexts = contexts * len(questions) if len(contexts) == 1 else contexts
    if len(contexts) != len(questions):
        raise RefusedError(f"{len(contexts)} contexts for {len(questions)} questions: give one for each")
    ask.check_texts([*questions, *contexts])
    served = ask.service.models.named(ask.value("model", str), ["answer"])
    most = ask.whole("n_best", 5, 20)
    found = await ask.predict(served, "answer", questions, contexts, n_best=most)
    return _results(served.name, [each.to_dict() for each in found], several)


async def embed(ask: Ask) -> Response:
    texts, several = ask.texts("texts")
    served = ask.service.models.named(ask.value("model", str), ["embed"])
    own: Any = {"prompt": ask.prompt(served), "dimensions": ask.value("dimensions", int)}
    found = await ask.predict(served, "embed", texts, too_long=_too_long(ask, "windows"), **own)
    return _results(served.name, [{"vector": each} for each in found], several)


async def fill(ask: Ask) -> Response:
    texts, several = ask.texts("texts")
    served = ask.service.models.named(ask.value("model", str), ["pretrain"])
    found = await ask.predict(served, "fill", texts, top=ask.whole("top", 5, 100))
    return _results(served.name, [each.to_dict() for each in found], several)


async def about(ask: Ask) -> Response:
    """What is served: what a page must know to ask for the rest. Languages that are not known are null."""
    models, limits = ask.service.models, ask.service.limits
    names = ("texts", "characters", "body", "alternatives", "max_tokens")
    pairs = [
        {"model": each.name, "source": each.source, "target": target, "aligns": _aligns(each.predictor)}
        for each in models.translators()
        for target in each.targets or (None,)
    ]
    return Json(
        {
            "models": [_told(each, each in models.of("embed")) for each in models],
            "pairs": pairs,
            "limits": {name: getattr(limits, name) for name in names},
        }
    )


def _told(served: Served, embeds: bool) -> dict[str, Any]:
    """With the languages that a translator can be told it reads, its own first, and the prompts that an
    embedder has for what is asked and what is searched."""
    told: dict[str, Any] = {"name": served.name, "task": served.task, "noun": get_task(served.task).noun}
    if served.reads:
        own = served.predictor.source_language
        told["reads"] = sorted(served.reads, key=lambda language: language != own)
    if embeds:
        sides = {side: served.predictor.prompt_of(side) for side in ("query", "passage")}
        prompts = {side: name for side, name in sides.items() if name is not None}
        told |= {"prompts": prompts} if prompts else {}
    return told


def _aligns(translator: Any) -> bool:
    """Whether it can tell which word came from which."""
    try:
        translator.options(align=True)
    except ValueError:
        return False
    return True


def _too_long(ask: Ask, default: str) -> str:
    value: str = ask.value("too_long", str, default)
    if value not in ("cut", "windows", "error"):
        raise RefusedError(f"too_long={value!r:.40} is none of cut, windows, error")
    return value


def _results(model: str, results: list[dict[str, Any]], several: bool) -> Response:
    return Json({"model": model, "results": results} if several else {"model": model, "result": results[0]})


OWN = Door(
    "regard",
    lambda why, status: {"error": why, "status": status},
    [
        Way("POST", "/v1/translate", translate),
        Way("POST", "/v1/classify", classify),
        Way("POST", "/v1/tag", tag),
        Way("POST", "/v1/answer", answer),
        Way("POST", "/v1/embed", embed),
        Way("POST", "/v1/fill", fill),
        Way("GET", "/v1/about", about),
    ],
)
