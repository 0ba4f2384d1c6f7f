"""The translations that the explorer's page shows are those of the translator, told in full."""

import base64
import json
import math

import numpy as np
import pytest
import torch

from regard.data.packing import pack
from regard.decode import DecodeConfig
from regard.look.explorer.explorer import Explorer, Refused
from regard.look.explorer.translation import QUESTIONS, Words, asked
from regard.look.page import key
from regard.look.texts import trace_translation
from regard.look.words import Tokens, merge_words
from regard.tasks.translation.alignment import check_attention
from tests.models.families import BODIES
from tests.tasks.copying import copier, tokenizer, translator

TEXT = "silver bridge summer candle"
SHORT = DecodeConfig(maximum=8)
pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture
def copies() -> Explorer:
    return Explorer(copier(), "copier", QUESTIONS)


def explorer(family="transformer, sinusoidal", *languages, decoding=SHORT) -> Explorer:
    return Explorer(translator(family, *languages, decoding=decoding), "nonsense", QUESTIONS)


def whole(side) -> str:
    return "".join(word["gap"] + word["word"] for word in side["words"]) + side["tail"]


@pytest.mark.parametrize("beam", [1, 8])
@pytest.mark.parametrize("family", BODIES)
def test_the_best_are_those_of_the_translator(family, beam):
    asking = explorer(family)
    found = asking.ask("translate", {"text": TEXT, "beam": beam})
    wanted = asking.task.translate(TEXT, decoding=DecodeConfig(maximum=8, beam=beam, n_best=beam))
    for name in ("text", "finished"):
        assert [each[name] for each in found["best"]] == [getattr(each, name) for each in wanted.alternatives]
    for name in ("score", "ranking"):  # the explorer listens, so the model takes its steps itself
        figures = [getattr(each, name) for each in wanted.alternatives]
        assert [each[name] for each in found["best"]] == pytest.approx(figures, rel=1e-5)
    assert whole(found["target"]) == wanted.text
    assert whole(found["source"]) == TEXT
    json.dumps(found, allow_nan=False)


def test_a_translator_has_a_beam_of_its_own():
    asking = explorer(decoding=DecodeConfig(maximum=8, beam=3))
    assert asking.ask("translate", {"text": TEXT}) == asking.ask("translate", {"text": TEXT, "beam": 3})
    sampling = explorer(decoding=DecodeConfig(method="sample", maximum=8, beam=3, seed=7))
    assert sampling.ask("translate", {"text": TEXT}) == asking.ask("translate", {"text": TEXT})


def test_words_and_the_end_together_are_as_likely_as_the_whole(copies):
    found = copies.ask("translate", {"text": TEXT})
    words = found["target"]["words"]
    assert [each["word"] for each in words] == ["silver", "bridge", "summer", "candle"]
    [end] = [node for node in found["tree"] if node.get("place") == 0]
    product = math.prod(each["probability"] for each in words) * math.exp(end["step"])
    assert product == pytest.approx(math.exp(found["best"][0]["score"]), rel=1e-4)


@pytest.mark.parametrize("family", ["transformer, sinusoidal", "transformer, modern", "lstm, additive"])
def test_alignment_is_what_the_decoder_looked_at(family):
    asking = explorer(family)
    found = asking.ask("translate", {"text": TEXT, "beam": 3})
    numbers = np.frombuffer(base64.b64decode(found["alignment"].removeprefix("u2:")), "<u2") / 65535
    decoding = DecodeConfig(maximum=8, beam=3, n_best=3)
    traced = trace_translation(asking.task, TEXT, decoding=decoding, what=["weights"])
    layer = check_attention(asking.task.model)
    weights = traced.trace.weights("cross", layer=layer).mean(dim=0)
    wanted = merge_words(weights, traced.written, traced.read, specials="spread")
    assert wanted.rows == tuple(each["word"] for each in found["target"]["words"])
    assert wanted.columns == tuple(each["word"] for each in found["source"]["words"])
    assert numbers == pytest.approx(wanted.weights.flatten().numpy(), abs=1e-4)


def test_without_attention_there_is_a_translation_and_no_alignment():
    found = explorer("lstm, no attention").ask("translate", {"text": TEXT})
    assert found["alignment"] is None
    assert found["best"][0]["text"]


def lineage(nodes, node):
    return [*lineage(nodes, nodes[node["parent"]]), node] if node["parent"] >= 0 else [node]


@pytest.mark.parametrize("beam", [1, 4])
def test_the_tree_leads_to_each_of_the_best(copies, beam):
    found = copies.ask("translate", {"text": TEXT, "beam": beam})
    nodes = found["tree"]
    assert sorted(node["place"] for node in nodes if "place" in node) == [*range(len(found["best"]))]
    for node in (node for node in nodes if "place" in node):
        line, best = lineage(nodes, node), found["best"][node["place"]]
        assert "".join(each["token"] for each in line).strip() == best["text"]
        assert node["total"] == best["score"] == pytest.approx(math.fsum(each["step"] for each in line))
        assert [each["time"] for each in line] == [*range(len(line))]
        assert node["end"] is best["finished"]
    for time in range(nodes[-1]["time"] + 1):
        totals = [node["total"] for node in nodes if node["time"] == time]
        assert totals == sorted(totals, reverse=True)
        assert sum(not node["end"] for node in nodes if node["time"] == time) <= beam


def test_what_was_stopped_stands_at_the_end_of_its_line():
    found = explorer(decoding=DecodeConfig(minimum=4, maximum=4)).ask("translate", {"text": TEXT, "beam": 2})
    placed = [node for node in found["tree"] if "place" in node]
    assert len(placed) == len(found["best"])
    for node in placed:
        assert node["end"] is found["best"][node["place"]]["finished"] is (node["time"] == 4)


@pytest.mark.parametrize("word", [0, 2])
def test_other_ways_begin_with_the_likeliest_other_tokens(copies, word):
    own = copies.task.tokenizer
    found = copies.ask("translate", {"text": TEXT})
    answer = copies.ask("alternatives", {"text": TEXT, "word": word})
    assert answer["word"] == found["target"]["words"][word]["word"]
    ids = [*own.encode(TEXT).ids]
    place = Tokens.of(own.encode(TEXT), TEXT).units("drop")[word][1][0]
    source, target = [*ids, own.require("end")], [own.require("start"), *ids]
    read, wrote = pack([source]), pack([target])
    with torch.no_grad():
        states = copies.task.model(read.ids, read.layout, wrote.ids, wrote.layout)
        likely = copies.task.model.decoder.head(states)[place].softmax(dim=0)
    assert answer["probability"] == pytest.approx(float(likely[ids[place]]), rel=1e-4)
    firsts = [each["prefix"][-1] for each in answer["others"]]
    found = [each["probability"] for each in answer["others"]]
    assert found == pytest.approx(likely[firsts].tolist(), rel=1e-4)
    likelier = set((likely > likely[firsts[0]] * (1 + 1e-6)).nonzero()[:, 0].tolist())
    assert likelier <= {ids[place], *copies.task.never_written, own.require("end")}
    assert all(each["prefix"][:-1] == ids[:place] for each in answer["others"])


def test_another_way_is_the_translation_that_follows_its_tokens(copies):
    answer = copies.ask("alternatives", {"text": TEXT, "word": 2, "beam": 2})
    assert len(answer["others"]) == 5
    texts = []
    for each in answer["others"]:
        found = copies.ask("translate", {"text": TEXT, "beam": 2, "prefix": each["prefix"]})
        texts.append(found["best"][0]["text"])
        assert texts[-1] == each["before"] + each["word"] + each["after"]
        assert found["forced"] == len(each["prefix"])
        [chosen] = [word for word in found["target"]["words"] if word["chosen"]]
        assert chosen["word"] == each["word"]
        nodes = found["tree"]
        forced = nodes[: found["forced"]]
        assert [node["parent"] for node in forced] == [*range(-1, found["forced"] - 1)]
        assert math.exp(forced[-1]["step"]) == pytest.approx(each["probability"], rel=1e-4)
        [last] = [node for node in nodes if node.get("place") == 0]
        assert found["best"][0]["score"] == pytest.approx(math.fsum(n["step"] for n in lineage(nodes, last)))
    assert len({*texts, copies.ask("translate", {"text": TEXT, "beam": 2})["best"][0]["text"]}) == 6


def test_other_ways_have_other_ways(copies):
    first = copies.ask("alternatives", {"text": TEXT, "word": 1})["others"][0]["prefix"]
    later = copies.ask("alternatives", {"text": TEXT, "word": 2, "prefix": first})["others"]
    assert later
    assert all(each["prefix"][: len(first)] == first for each in later)


def test_a_translator_of_several_languages_is_told_which():
    asking = explorer("transformer, sinusoidal", "de", "fr")
    for to in ("de", "fr"):
        found = asking.ask("translate", {"text": TEXT, "to": to})
        wanted = asking.task.translate(TEXT, to=to, decoding=DecodeConfig(maximum=8, n_best=5))
        assert found["best"][0]["text"] == wanted.text
        assert found["best"][0]["score"] == pytest.approx(wanted.score, rel=1e-5)
    with pytest.raises(Refused, match="say to which"):
        asking.ask("translate", {"text": TEXT})
    with pytest.raises(Refused, match="no language of this model"):
        asking.ask("translate", {"text": TEXT, "to": "xx"})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"text": " \n"}, "no text"),
        ({"text": "a" * 20_001}, "20,001 characters"),
        ({"text": "harbour " * 40}, "trained on 12 at most: translate it sentence by sentence"),
        ({"text": TEXT, "beam": 0}, "beam=0: choose from 1 to 8"),
        ({"text": TEXT, "beam": 9}, "beam=9"),
        ({"text": TEXT, "prefix": [100_000]}, "prefix has 100000"),
        ({"text": TEXT, "prefix": [-1]}, "prefix has -1"),
        ({"text": TEXT, "prefix": [2]}, "prefix has 2"),
        ({"text": TEXT, "prefix": [20] * 300}, "all of them are given"),
    ],
)
def test_what_cannot_be_translated_is_refused_in_words(copies, given, why):
    with pytest.raises(Refused, match=why):
        copies.ask("translate", given)
    with pytest.raises(Refused, match=why):
        copies.ask("alternatives", {**given, "word": 0})


@pytest.mark.parametrize("word", [-1, 4])
def test_a_word_that_is_not_there_has_no_other_ways(copies, word):
    with pytest.raises(Refused, match=f"word={word}: the translation has 4 words"):
        copies.ask("alternatives", {"text": TEXT, "word": word})


def test_a_saved_page_has_one_other_way_at_each_word(copies):
    questions = [*asked(copies, TEXT, None, None)]
    saved = {key(name, given) for name, given in questions}
    assert key("translate", {"text": TEXT}) in saved
    for word in range(4):
        given = {"text": TEXT, "word": word}
        assert key("alternatives", given) in saved
        for each in copies.ask("alternatives", given)["others"]:
            assert key("translate", {"text": TEXT, "prefix": each["prefix"]}) in saved
    assert len(saved) == 1 + 4 + 4 * 5


def test_a_saved_page_asks_no_further_where_a_text_is_too_long(copies):
    text = "harbour " * 40
    assert [*asked(copies, text, None, None)] == [("translate", {"text": text, "to": None})]


def test_words_lose_nothing_of_a_text():
    text = "  silver,  bridge!\ncandle "
    own = Words.of(Tokens.of(tokenizer().encode(text), text), text)
    assert own.text == text.strip()
    assert [each.name for each in own.each] == ["silver", ",", "bridge", "!", "candle"]
    assert own.around(2) == {"before": "silver,  ", "word": "bridge", "after": "!\ncandle"}
    assert [own.holding(each.places[0]) for each in own.each] == [0, 1, 2, 3, 4]
