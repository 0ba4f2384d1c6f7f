"""One sentence on its way through the model, step by step: what is done, its equation, and the numbers of one
token that this model really has there.

The steps are made here, as data; the page only draws them:

    tokens   what was read         vector   a row of numbers         bars   named shares or scores
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.look.explorer.explorer import Answer, Call, Explorer, Refused, floats
from regard.look.explorer.reading import plain_tokens, queries_and_scale, sides
from regard.look.kept import Attended
from regard.look.parts import Side
from regard.look.texts import TracedText
from regard.look.words import Tokens
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.heads import ClassifyHead, EmbedHead, SpanHead, TagHead
from regard.nn.attention import AdditiveScore, DotScore
from regard.nn.layers import TransformerLayer, activate
from regard.nn.stacks import Stack
from regard.tasks.classification.classifier import Classifier
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.tagging.tagger import Tagger

TOP = 6


def tour(
    explorer: Explorer,
    *,
    text: str,
    second: str | None = None,
    to: str | None = None,
    token: int | None = None,
) -> Answer:
    """The steps for one of the tokens that are read; unless given, one in the middle."""
    traced = explorer.traced(text, second, to)
    side: Side = "encoder" if explorer.parts.encoder is not None else "decoder"
    own = sides(traced)[side]
    words = [place for place, owner in enumerate(own.owners) if owner is not None] or [0]
    chosen = words[len(words) // 2] if token is None else token
    if not 0 <= chosen < len(own):
        raise Refused(f"token {chosen}, where there are {len(own)}")
    guide = _Guide(explorer, traced, side, chosen)
    part = explorer.parts.sides[side]
    guide.read()
    guide.embed(part)
    if isinstance(part.body, Stack):
        guide.attend()
        guide.pass_on(part.body.each[0], text, second, to)
        guide.climb(part.body)
    else:
        guide.recur()
    if traced.target is not None:
        guide.decode()
    guide.end(text, second)
    return {"side": side, "token": chosen, "steps": guide.steps}


@dataclass(slots=True)
class _Guide:
    explorer: Explorer
    traced: TracedText
    side: Side
    token: int
    steps: list[Answer] = field(default_factory=list)

    @property
    def own(self) -> Tokens:
        """What is read on the way."""
        return sides(self.traced)[self.side]

    @property
    def name(self) -> str:
        return self.own.tokens[self.token]

    def step(self, title: str, says: str, equation: str, *shows: Answer) -> None:
        self.steps.append({"title": title, "says": says, "equation": equation, "shows": list(shows)})

    def read(self) -> None:
        own = self.own
        ids = self.traced.trace.ids(self.side)
        self.step(
            "Text becomes tokens",
            f"The tokenizer splits the text into {len(own)} tokens, each one of the "
            f"{len(self.explorer.tokenizer):,} that it knows. A token's id is its number among them. "
            f"We follow “{self.name}”.",
            f"text → tokens → ids      “{self.name}” → {ids[self.token]}",
            {"kind": "tokens", **plain_tokens(own), "ids": ids, "chosen": self.token},
        )

    def embed(self, part: Encoder | Decoder) -> None:
        embedding, config = part.embedding, part.config
        id = self.traced.trace.ids(self.side)[self.token]
        row = embedding.tokens.weight[id].detach().float()
        inputs = self.traced.trace.inputs(self.side)[self.token]
        shows = [vector(f"E[{id}]", row)]
        terms = "E[id]" if embedding.scale == 1 else "√d · E[id]"
        says = f"The id picks a row of the embedding table: {config.d_model} learned numbers. "
        if embedding.positions is not None:
            positions = torch.arange(self.token + 1, device=row.device)
            place = embedding.positions(positions, self.token + 1, torch.float32)[self.token].detach()
            shows.append(vector(f"p[{self.token}]", place))
            terms += " + p[position]"
            kind = config.positions.kind
            says += f"The {kind} position {self.token} is added, for attention sees no order. "
        elif config.positions.kind != "none":
            says += f"Its place comes in later: {config.positions.kind} positions work inside attention. "
        if embedding.segments is not None:
            terms += " + s[segment]"
            says += "So is a vector for the text it belongs to, the first or the second. "
        equation = f"x = {terms}"
        if embedding.norm is not None:
            equation, says = f"x = Norm({terms})", says + "The sum is normalised."
        shows.append(vector("x", inputs))
        self.step("Tokens become vectors", says, f"{equation}      d = {config.d_model}", *shows)

    def attend(self) -> None:
        seen, place = self.traced.trace, self.side
        weights = seen.weights(place, layer=0)
        head = int(weights[:, self.token].max(dim=-1).values.argmax())
        queries, scale = queries_and_scale(self.explorer, seen, place, 0, head)
        q = queries[self.token]
        k, v = (ask(place, layer=0, head=head) for ask in (seen.keys, seen.values))
        self.step(
            "Query, key and value",
            f"In each layer, every head makes three short vectors of each token: what it looks for, what it "
            f"offers, and what it gives. Here head {head + 1} of {len(weights)} in layer 1.",
            f"q = W_q x      k = W_k x      v = W_v x      {len(q)} numbers each",
            vector("q", q),
            vector("k", k[self.token]),
            vector("v", v[self.token]),
        )
        scores = seen.scores(place, layer=0, head=head)[self.token]
        found = seen.shown.attended(place, 0)
        row = weights[head, self.token]
        rows = [(self.own.tokens[j], share, f"score {scores[j]:.3f}") for j, share in largest(row)]
        self.step(
            "Scores become weights",
            f"The query of “{self.name}” is compared with the key of every token it may see: a score each. "
            "The softmax makes them positive, and their sum 1. These are the attention weights that the "
            f"view Heads shows (layer 1, head {head + 1})."
            + (" b is what the model adds for how far the two are apart." if found.bias is not None else ""),
            f"score = {_score(found, scale, len(q))}      weight = exp(score) / Σ exp(score)",
            bars("the heaviest", rows),
        )
        self.step(
            "A weighted sum of values",
            "The head's output is the sum of all values, each by its weight: a mixture of what tokens give. "
            f"The outputs of all {len(weights)} heads are laid side by side and mixed by one more matrix.",
            "z = Σ weight · v      a = W_o [z₁ … z_h]",
            vector("z", row @ v),
        )

    def pass_on(self, layer: TransformerLayer, text: str, second: str | None, to: str | None) -> None:
        """What the trace does not keep: the stream between attention and feed-forward."""
        kept: dict[str, Tensor] = {}

        def keep(name: str) -> Any:
            return lambda _part, _args, found: kept.__setitem__(name, found.detach())

        ahead = layer.attention_residual if layer.cross_residual is None else layer.cross_residual
        with ExitStack() as until:
            parts: dict[str, nn.Module] = {"between": ahead, "inner": layer.feed_forward.inner}
            for name, part in parts.items():
                until.callback(part.register_forward_hook(keep(name)).remove)
            self.explorer.run(text, second, to, ("inputs",))
        between = kept["between"][self.token]
        inner = activate(kept["inner"][self.token : self.token + 1], layer.feed_forward.activation)[0]
        place = layer.attention_residual.place
        norm = "The sum is normalised. " if place == "post" else "Its input was normalised before. "
        self.step(
            "Added to what was there",
            "Attention does not replace the token's vector: its output is added to it, and nothing is lost. "
            + norm,
            "x ← Norm(x + a)" if place == "post" else "x ← x + Attention(Norm(x))",
            vector("x", between),
        )
        active = float((inner > 0).float().mean())
        self.step(
            "Each token by itself",
            f"A small network with {len(inner):,} neurons works on each token alone; for “{self.name}”, "
            f"{active:.0%} of them are above zero. Its output is added too. That was layer 1.",
            "x ← Norm(x + FFN(x))" if place == "post" else "x ← x + FFN(Norm(x))",
            vector("neurons", inner),
            vector("x", self.traced.trace.stream(self.side, layer=0)[self.token]),
        )

    def climb(self, body: Stack) -> None:
        seen = self.traced.trace
        states = [seen.inputs(self.side)[self.token]]
        states += [seen.stream(self.side, layer=layer)[self.token] for layer in range(len(body.each))]
        rows = []
        for layer, state in enumerate(states):
            likeness = float(torch.cosine_similarity(state, states[0], dim=0))
            rows.append((f"layer {layer}" if layer else "embedding", likeness, f"length {state.norm():.2f}"))
        self.step(
            f"The same again, {len(body.each)} layers in all",
            f"Each layer attends and computes anew, on what the one below has made. “{self.name}” moves away "
            "from its embedding as it takes in its context: the cosine between the two says how far.",
            "x₀ → x₁ → … → x_L      cosine = x₀ · x / (|x₀| |x|)",
            bars("cosine with the embedding", rows),
        )

    def recur(self) -> None:
        self.step(
            "One token after the other",
            "A recurrent layer reads the tokens in order and carries a state from each to the next. This is "
            f"the state at “{self.name}”.",
            "h_t = RNN(x_t, h_(t-1))",
            vector("h", self.traced.trace.stream(self.side)[self.token]),
        )

    def decode(self) -> None:
        """Where a translator writes: the step in the middle of the translation."""
        seen, written = self.traced.trace, cast(Any, self.traced.written)
        step = max(0, (len(written) - 1) // 2)
        before = cast(Any, self.traced.target).tokens[: step + 1]
        if "cross" in seen.places:
            weights = seen.weights("cross").mean(dim=0)[step]
            self.step(
                "The decoder looks back at the source",
                f"The translation is written token by token. So far: {' '.join(before)}. Its queries meet "
                "the keys of the source, as above; here in the last layer, the mean of its heads.",
                "weight = softmax(score(q_target, k_source))",
                bars("looks at", [(self.traced.read.tokens[j], share, "") for j, share in largest(weights)]),
            )
        chances = seen.logits("decoder")[step].softmax(dim=-1)
        self.step(
            "A distribution over the vocabulary",
            "The last vector is compared with the vector of every token in the vocabulary. The softmax makes "
            "probabilities of it; a search takes the sentence that has the highest in all.",
            "p = softmax(W x)",
            bars("the likeliest next tokens", self._likeliest(chances)),
        )

    def end(self, text: str, second: str | None) -> None:
        task, seen = self.explorer.task, self.traced.trace
        match getattr(task.model, "head", None):
            case ClassifyHead():
                found = cast(Classifier, task).classify(text, second or None)
                rows = [(name, share, "") for name, share in [*found.probabilities.items()][:TOP]]
                self.step(
                    "The sentence gets a label",
                    "One vector stands for the whole text, and a last matrix scores each label.",
                    "p = softmax(W pool(x) + b)" if rows else "y = W pool(x) + b",
                    bars("labels", rows or [("value", found.value, "")]),
                )
            case TagHead() as head if not cast(Tagger, task).labels:
                value = float(head(seen.stream("encoder")[self.token].unsqueeze(0))[0, 0])
                self.step(
                    "Every token gets a number",
                    f"A last row of weights gives the number of “{self.name}”.",
                    "y = w . x + b",
                    bars("number", [("value", value, "")]),
                )
            case TagHead() as head:
                labels = cast(Tagger, task).labels
                states = seen.stream("encoder")[self.token]
                chances = head(states.unsqueeze(0))[0].detach().float().softmax(dim=-1)
                self.step(
                    "Every token gets a tag",
                    f"A last matrix scores each tag for “{self.name}”.",
                    "p = softmax(W x + b)",
                    bars("tags", [(labels[j], share, "") for j, share in largest(chances)]),
                )
            case SpanHead() as head:
                both = head(seen.stream("encoder")).detach().float().softmax(dim=0)
                names = self.traced.read.tokens
                self.step(
                    "Where an answer begins and ends",
                    "A last matrix scores each token twice: that the answer begins there, and that it ends "
                    "there. The best span is the one whose two scores have the highest sum.",
                    "p(start) = softmax(W_s x)     p(end) = softmax(W_e x)",
                    bars("begins at", [(names[j], share, "") for j, share in largest(both[:, 0])]),
                    bars("ends at", [(names[j], share, "") for j, share in largest(both[:, 1])]),
                )
            case EmbedHead():
                self.step(
                    "The sentence in one vector",
                    "The tokens' vectors are pooled into one. Sentences that mean alike get vectors that "
                    "point alike.",
                    "s = pool(x₁ … x_n)",
                    vector("s", torch.from_numpy(cast(Embedder, task).embed(text, prompt=""))),
                )
            case _ if self.traced.target is None and "logits" in self.traced.trace.shown.what:
                chances = seen.logits(self.side)[self.token].softmax(dim=-1)
                after = "comes next" if self.side == "decoder" else "stands here"
                self.step(
                    "A distribution over the vocabulary",
                    f"The last vector of “{self.name}” is compared with the vector of every token in the "
                    f"vocabulary: a probability for each that it {after}.",
                    "p = softmax(W x)",
                    bars(f"what {after}", self._likeliest(chances)),
                )

    def _likeliest(self, chances: Tensor) -> list[tuple[str, float, str]]:
        tokenizer = self.explorer.tokenizer
        return [(tokenizer.token(id), share, "") for id, share in largest(chances) if id < len(tokenizer)]


def largest(shares: Tensor) -> list[tuple[int, float]]:
    """The places of the few largest, and what they are."""
    best = shares.topk(min(TOP, len(shares)))
    return [*zip(best.indices.tolist(), best.values.tolist(), strict=True)]


def _score(found: Attended, scale: float | None, width: int) -> str:
    """As an equation writes it."""
    added = "" if found.bias is None else " + b"
    match found.score:
        case None | DotScore():
            if scale is None:
                return f"q · k / √{width}{added}"
            return f"q · k{added}" if math.isclose(scale, 1) else f"{scale:.4g} q · k{added}"
        case AdditiveScore():
            return f"v · tanh(W_q q + W_k k){added}"
    return f"s(q, k){added}, s the model's own"


def vector(name: str, values: Tensor) -> Answer:
    return {"kind": "vector", "name": name, "values": floats(values)}


def bars(name: str, rows: list[tuple[str, float, str]]) -> Answer:
    """Rows of a name, a number and a remark."""
    plain = [{"name": own, "value": value, "remark": remark} for own, value, remark in rows]
    return {"kind": "bars", "name": name, "rows": plain}


def asked(explorer: Explorer, text: str, second: str | None, to: str | None) -> Iterator[Call]:
    """What the page may ask about one text; of a saved page, one token."""
    yield "tour", {"text": text, "second": second, "to": to}


QUESTIONS = {"tour": tour}
