"""Going on, token by token: probabilities against a plain pass, new tokens against the generator."""

import base64

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.data.packing import pack
from regard.decode import DecodeConfig
from regard.look.explorer.completion import LISTED, STEP, asked
from regard.look.explorer.explorer import Explorer, Refused
from regard.settings.models import EmbedConfig
from regard.tasks.embedding.embedder import Embedder
from tests.tasks.encoders import toys
from tests.tasks.language import scripted

TEXT = "The cat sat"


def explorer(**settings) -> Explorer:
    torch.manual_seed(0)
    return Explorer(scripted.generator(**settings))


def unpacked(text: str) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text[3:]), "<f4").copy())


def prompt(own: Explorer, text: str = TEXT) -> list[int]:
    return [own.tokenizer.require("start"), *own.tokenizer.encode(text).ids]


def after(own: Explorer, ids: list[int]) -> torch.Tensor:
    """Probabilities of what follows each."""
    packed, model = pack([ids]), own.task.model.eval()
    with torch.no_grad():
        return model.head(model(packed.ids, packed.layout)).softmax(dim=-1)


@pytest.mark.parametrize("text", [TEXT, "The cat sat on the mat. " * 9])  # more than are scored at once
def test_every_token_has_the_probability_that_the_model_gave_it(text):
    own = explorer(positions="sinusoidal")
    written = own.tokenizer.encode(" the house").ids
    answer = own.ask("complete", {"text": text, "ids": [*written]})
    ids = [*prompt(own, text), *written]
    chances = after(own, ids)
    assert [answer["ids"][number] for number in answer["tokens"]] == ids
    assert (answer["prompt"], answer["front"]) == (len(ids) - len(written), 1)
    found, shares = unpacked(answer["chances"]), unpacked(answer["shares"]).reshape(-1, LISTED)
    assert len(shares) == len(ids) + 1
    for place, id in enumerate(ids[1:], start=1):
        assert_close(found[place], chances[place - 1, id])
        assert answer["ranks"][place] == 1 + int((chances[place - 1] > chances[place - 1, id]).sum())
    best = chances.topk(LISTED)
    assert_close(shares[1:], best.values)
    assert [[answer["ids"][n] for n in row] for row in answer["likely"][1:]] == best.indices.tolist()


def test_what_was_written_is_not_split_anew():
    own = explorer()
    letters = [own.tokenizer.vocabulary[each] for each in ("t", "h", "e")]
    assert own.tokenizer.encode("the").ids != tuple(letters)
    answer = own.ask("complete", {"text": TEXT, "ids": letters})
    assert answer["written"] == letters
    assert answer["text"] == f"{TEXT}the"


def test_the_likeliest_are_written_one_after_the_other():
    own = explorer()
    answer = own.ask("complete", {"text": TEXT, "count": 7})
    ids = prompt(own)
    for _ in range(7):
        chances = after(own, ids)[-1]
        chances[[*own.task.never_written]] = -1
        ids.append(int(chances.argmax()))
    assert answer["written"] == ids[-7:]
    assert answer["room"] == 64 - len(ids)
    assert not answer["ended"]


def test_a_sample_hangs_on_its_seed_and_on_where_it_begins():
    own = explorer()
    wish = {"text": TEXT, "count": 8, "method": "sample", "temperature": 1.5, "top_p": 0.9, "seed": 3}
    first = own.ask("complete", wish)
    assert first["written"] == own.ask("complete", wish)["written"]
    assert first["written"] != own.ask("complete", {**wish, "seed": 4})["written"]
    decoding = DecodeConfig(method="sample", temperature=1.5, top_p=0.9, seed=3)
    [wanted] = own.task.generate_ids(
        [prompt(own)],
        decoding=decoding,
        max_tokens=8,
        end=own.tokenizer.require("end"),
        suppressed=own.task.never_written,
        keys=[len(prompt(own))],
    )
    assert first["written"] == wanted
    further = own.ask("complete", {**wish, "ids": first["written"]})
    assert further["written"][:8] == first["written"]
    assert further["written"][8:] != first["written"]


def test_the_model_may_end_the_text():
    answer = explorer(ends=50.0).ask("complete", {"text": TEXT, "count": 5})
    assert (answer["written"], answer["ended"]) == ([], True)


def test_another_way_can_be_taken_inside_the_text():
    own = explorer()
    ids = own.tokenizer.encode(TEXT).ids
    answer = own.ask("complete", {"text": TEXT, "kept": 1, "ids": [ids[2]]})
    assert [answer["ids"][number] for number in answer["tokens"]] == [prompt(own)[0], ids[0], ids[2]]
    assert answer["text"] == own.tokenizer.decode([ids[0], ids[2]])
    with pytest.raises(Refused, match=f"kept=9 of a text of {len(ids)} tokens"):
        own.ask("complete", {"text": TEXT, "kept": 9})


def test_a_full_context_is_refused():
    own = explorer()
    room = 64 - len(prompt(own))
    ids = [own.tokenizer.vocabulary["t"]] * room
    assert own.ask("complete", {"text": TEXT, "ids": ids})["room"] == 0
    with pytest.raises(Refused, match="the context is full: 64 tokens, and 64 are read here"):
        own.ask("complete", {"text": TEXT, "ids": ids, "count": 1})
    with pytest.raises(Refused, match="the context is full: 65 tokens"):
        own.ask("complete", {"text": TEXT, "ids": [*ids, ids[0]]})
    answer = own.ask("complete", {"text": TEXT, "ids": ids[3:], "count": 9})  # as many as there is room for
    assert (answer["new"], answer["room"], answer["ended"]) == (3, 0, False)


def test_what_stands_for_no_text_cannot_be_written():
    own = explorer()
    for id in (own.tokenizer.require("end"), own.tokenizer.require("start"), -1, 10**6):
        with pytest.raises(Refused, match=f"id {id} cannot be written"):
            own.ask("complete", {"text": TEXT, "ids": [id]})


def test_tokens_are_named_as_they_read():
    own = explorer()
    answer = own.ask("complete", {"text": "Über the house 🙂"})
    names = [answer["names"][number] for number in answer["tokens"]]
    assert names[0] == own.tokenizer.specials.start
    assert {" the", " house"} <= {*names}
    assert "\ufffd" not in "".join(names)  # parts of characters are spelled by their bytes
    ends = answer["ids"].index(own.tokenizer.require("start"))
    assert answer["closed"][ends]


def test_a_saved_page_goes_on_once():
    own = explorer()
    questions = [*asked(own, TEXT, None, None)]
    assert [given.get("count") for _, given in questions] == [None, STEP]
    for question, given in questions:
        own.ask(question, given)
    embedder = Explorer(Embedder(toys.reader(toys.model(EmbedConfig()))))
    assert [*asked(embedder, TEXT, None, None)] == []
    with pytest.raises(Refused, match="does not complete a text"):
        embedder.ask("complete", {"text": TEXT})
