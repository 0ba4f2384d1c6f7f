"""How regard is used from Python, as an editor sees it: type checkers read this file, nobody runs it.

tests/test_typing.py asks mypy --strict and pyright, and compares each `reveal_type` with the comment by it.
"""

from pathlib import Path

import regard
from regard import look

reveal_type(regard.__version__)  # str

outcome = regard.fit("recipe.toml", "model.layers=4", out="runs/a")
reveal_type(outcome)  # Outcome
reveal_type(outcome.step)  # int
regard.fit({"data": {"train": ["train.en", "train.de"]}}, out=Path("runs/b"), device="cpu")

some = regard.load("runs/a")
reveal_type(some)  # Predictor
reveal_type(some.task)  # str
reveal_type(some.about())  # dict[str, Any]
with some.ready():
    some.model.eval()
regard.save(some, "runs/c")

translator = regard.load("runs/a", regard.Translator)
reveal_type(translator)  # Translator
reveal_type(translator.translate("One."))  # Translation
reveal_type(translator.translate(["One.", "Two."]))  # list[Translation]
reveal_type(translator.translate("One.").text)  # str
reveal_type(translator.translate("One.").confidence)  # float
decoding = regard.DecodeConfig(beam=4, n_best=2)
reveal_type(decoding)  # DecodeConfig
reveal_type(translator.translate("One.", decoding=decoding, align=True))  # Translation
reveal_type(translator.align("One.", "Eins.").links)  # tuple[tuple[int, int], ...]

classifier = regard.load(Path("runs/b"), kind=regard.Classifier, device="cpu", precision="int8")
reveal_type(classifier.classify("A text."))  # Prediction
reveal_type(classifier.classify(["A text.", "Another."]))  # list[Prediction]
reveal_type(classifier.classify("A text.").probabilities)  # dict[str, float]
reveal_type(classifier.predict(["A text."]).shape)  # tuple[Any, ...]
reveal_type(regard.to_dicts(classifier.classify(["A text."])))  # list[dict[str, Any]]

tagger = regard.load("runs/c", regard.Tagger)
reveal_type(tagger.tag("Ann met Bob."))  # TaggedWords
reveal_type(tagger.tag([["Ann", "met", "Bob", "."]]))  # list[TaggedWords]
reveal_type(tagger.tag("Ann met Bob.").tags)  # tuple[str, ...]
reveal_type(tagger.predict(["Ann met Bob."]))  # list[list[str]]

embedder = regard.load("runs/d", regard.Embedder)
reveal_type(embedder.embed(["A text."]).shape)  # tuple[Any, ...]
reveal_type(embedder.encode(["A text."]).shape)  # tuple[Any, ...]

filler = regard.load("runs/e", regard.Filler)
reveal_type(filler.fill("A [MASK]."))  # Filled
reveal_type(filler.fill(["A [MASK]."]))  # list[Filled]
reveal_type(filler.fill("A [MASK].").text)  # str

generator = regard.load("runs/f", regard.Generator)
reveal_type(generator.generate("Once", samples=2))  # list[Generated]
reveal_type(generator.generate(["Once", "Twice"]))  # list[list[Generated]]
reveal_type(generator.stream("Once"))  # Iterator[str]
reveal_type(generator.generate_ids([[1, 2]], max_tokens=3))  # list[list[int]]

answerer = regard.load("runs/g", regard.Answerer)
reveal_type(answerer.answer("Who?", "Ann met Bob."))  # Answered
reveal_type(answerer.answer(["Who?", "Where?"], "Ann met Bob."))  # list[Answered]
reveal_type(answerer.answer("Who?", "Ann met Bob.").best)  # AnswerSpan | None

reranker = regard.load("runs/h", regard.Reranker)
reveal_type(reranker.rerank("Who?", ["Ann met Bob."])[0].score)  # float
reveal_type(reranker.scores(["Who?"], ["Ann met Bob."]).shape)  # tuple[Any, ...]

every: list[regard.Predictor] = [translator, classifier, tagger, embedder, filler, generator, answerer]
every.append(reranker)
reveal_type(every[0].precision)  # Literal['float32', 'bfloat16', 'int8', 'int4']

with regard.trace(translator, what=("weights", "stream"), layers=[0], heads=[1]) as seen:
    translator.translate("One.")
reveal_type(seen)  # Trace
reveal_type(seen.weights("cross", layer=0, head=1))  # Tensor
reveal_type(seen.passes[0].stream("encoder"))  # Tensor

worth = look.rank_heads(classifier, look.measures.accuracy(classifier, ["A text."], ["good"]))
reveal_type(worth)  # list[HeadWorth]
reveal_type(look.prune_predictor(classifier, [worth[-1].head]))  # Classifier
reveal_type(look.trace_translation(translator, "One.").trace)  # Trace
reveal_type(look.Explorer(some, "mine").ask("about", {}))  # dict[str, Any]

regard.register(regard.Positions(name="mine"))
regard.register(regard.Metric(task="translate", figure="mine", function=lambda found, wanted: 1.0))
regard.load_plugin("mine.py")
