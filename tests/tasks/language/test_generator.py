"""Generating: a prompt's continuation is what the model says, alone, in company, whole or in pieces."""

import json
import warnings
from dataclasses import replace

import pytest
import torch

from regard.config import to_dict
from regard.decode import DecodeConfig
from regard.hub import DecoderCheckpoint
from regard.layout import Layout
from regard.tasks.base.folder import FORMAT, FolderError, whole, write_json, write_weights
from regard.tasks.language.continuation import GenerationWarning
from regard.tasks.language.generator import SAMPLING, Generator, open_generator
from regard.tasks.language.start import built
from regard.text import DataError, Specials, Tokenizer, TokenizerConfig
from tests.hub import gpts
from tests.tasks.language.scripted import TEXTS, generator, model, scripted, tokens

pytestmark = pytest.mark.usefixtures("unchecked")
GREEDY = DecodeConfig(method="greedy")
PROMPTS = ["The cat", "two words, three", "", "🙂"]
KINDS = ["byte-bpe", "bpe", "wordpiece"]


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_as_they_come_make_up_the_whole(kind):
    made = generator(kind, ends=3.0)
    for seed in range(4):
        settings = {"seed": seed, "max_tokens": 20, "stop": ["e", "th"] if seed % 2 else []}
        for prompt in PROMPTS:
            [found] = made.generate(prompt, **settings)
            assert "".join(made.stream(prompt, **settings)) == found.text


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_is_that_of_its_tokens_behind_the_prompt(kind):
    made = generator(kind)
    for prompt in ("The cat", "two words"):
        [found] = made.generate(prompt, max_tokens=20, decoding=GREEDY)
        ids = [*made.tokenizer.encode_batch([prompt])[0], *found.ids]
        assert len(found.ids) == 20
        if "\ufffd" not in found.text:
            assert str(found) == prompt + found.text == made.tokenizer.decode(ids)


def test_a_spent_checkpoint_gives_its_weights_away(tmp_path):
    first = generator()
    weights = {name: weight.clone() for name, weight in whole(first.model).items()}
    checkpoint = DecoderCheckpoint(
        config=first.model.config, weights=dict(weights), tokenizer=first.tokenizer, longest=8
    )
    kept = whole(built(checkpoint, tmp_path))
    assert checkpoint.weights.keys() == weights.keys()
    found = whole(built(checkpoint, tmp_path, spent=True))
    assert not checkpoint.weights
    assert all(
        torch.equal(found[name], each) and torch.equal(kept[name], each) for name, each in weights.items()
    )


@torch.no_grad()
def scores_after(made: Generator, ids: list[int]) -> torch.Tensor:
    states = made.model.eval()(torch.tensor(ids), Layout.of([len(ids)]))
    return made.model.head(states[-1:])[0].log_softmax(dim=0)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_greedy_search_is_the_argmax_of_whole_passes(positions):
    made = generator(positions=positions)
    specials = made.tokenizer.specials
    never = [made.tokenizer.vocabulary[token] for token in specials if token != specials.end]
    found = made.generate(PROMPTS, decoding=GREEDY, max_tokens=12)
    for prompt, [each] in zip(PROMPTS, found, strict=True):
        ids, score = [made.tokenizer.require("start"), *made.tokenizer.encode_batch([prompt])[0]], 0.0
        for token in each.ids:
            following = scores_after(made, ids)
            following[never] = -torch.inf
            assert int(following.argmax()) == token
            score += float(following[token])
            ids.append(token)
        assert each.score == pytest.approx(score, abs=1e-3)
        assert (each.prompt, each.finished) == (prompt, "length")


@pytest.mark.parametrize("past", ["stop", "slide"])
@pytest.mark.parametrize(
    "decoding", [replace(SAMPLING, n_best=3), GREEDY, DecodeConfig(beam=3, n_best=2)], ids=lambda c: c.method
)
def test_a_prompt_goes_on_alike_alone_and_in_any_company(decoding, past):
    made = generator(ends=3.0, longest=24)
    settings = {"decoding": decoding, "past": past, "max_tokens": 8 if past == "stop" else 30}
    together = made.generate(PROMPTS, **settings)
    in_parts = made.generate(PROMPTS, **settings, batch_tokens=1)
    for row, prompt in enumerate(PROMPTS):
        [alone] = made.generate([prompt], keys=[row], **settings)
        for found in (in_parts[row], alone):
            assert [each.ids for each in found] == [each.ids for each in together[row]]
            assert [each.finished for each in found] == [each.finished for each in together[row]]


def test_samples_hang_on_seed_number_and_key_and_on_nothing_else():
    made = generator()
    first = made.generate("The cat", samples=4, max_tokens=12, seed=3)
    torch.manual_seed(99)
    assert made.generate("The cat", samples=4, max_tokens=12, seed=3) == first
    assert made.generate("The cat", samples=2, max_tokens=12, seed=3) == first[:2]
    assert len({each.ids for each in first}) == 4
    assert made.generate("The cat", samples=4, max_tokens=12, seed=4) != first
    assert made.generate("The cat", samples=4, max_tokens=12, seed=3, keys=[1]) != first
    twice = made.generate(["The cat"] * 2, max_tokens=12)
    assert twice[0] != twice[1]
    assert "".join(made.stream("The cat", max_tokens=12, key=1)) == twice[1][0].text


def test_the_end_ends_a_text_and_is_no_part_of_it():
    made = generator(ends=4.0)
    found = made.generate("The cat", samples=20, max_tokens=30)
    ended = [each for each in found if each.finished == "end"]
    assert len(ended) > 5
    assert all(made.tokenizer.require("end") not in each.ids for each in found)
    assert all(len(each.ids) == 30 for each in found if each.finished == "length")


def test_special_tokens_and_rows_without_a_token_are_never_written():
    tokenizer = tokens()
    made = Generator(model(len(tokenizer) + 5), tokenizer)
    never = [tokenizer.vocabulary[token] for token in tokenizer.specials if token != "<eos>"]
    with torch.no_grad():
        made.model.head.bias[[*never, *range(len(tokenizer), len(tokenizer) + 5)]] += 20.0
    for decoding in (replace(SAMPLING, n_best=5), GREEDY, DecodeConfig(beam=4, n_best=4)):
        for each in made.generate("The cat", decoding=decoding, max_tokens=20):
            assert each.ids
            assert not {*each.ids} & {*never, *range(len(tokenizer), len(tokenizer) + 5)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_string_cuts_the_text_that_would_have_come(kind):
    made = generator(kind)
    [free] = made.generate("The cat", max_tokens=30, seed=2)
    stop = free.text[9:12]
    [found] = made.generate("The cat", max_tokens=30, seed=2, stop=[stop, "never this"])
    assert found.text == free.text[: free.text.index(stop)]
    assert found.finished == "stop"
    assert found.ids == free.ids[: len(found.ids)]
    assert len(found.ids) < 30
    settings = {"max_tokens": 30, "seed": 2, "keys": [0, 0]}
    [stopped, other] = made.generate(["The cat", "two"], stop=[stop], **settings)
    assert stopped[0].ids == found.ids
    assert other[0].text == made.generate(["The cat", "two"], **settings)[1][0].text.split(stop)[0]


def test_beams_come_best_first_with_the_scores_of_their_tokens():
    made = generator(ends=3.0)
    wide = DecodeConfig(beam=8, length_penalty=0.0)
    beams = made.generate("The cat", decoding=wide, samples=4, max_tokens=6)
    assert len({each.ids for each in beams}) == 4
    finished = [each.score for each in beams if each.finished == "end"]
    assert finished == sorted(finished, reverse=True)
    start, end = made.tokenizer.require("start"), made.tokenizer.require("end")
    for each in beams:
        ids, score = [start, *made.tokenizer.encode_batch(["The cat"])[0]], 0.0
        for token in [*each.ids, *[end] * (each.finished == "end")]:
            score += float(scores_after(made, ids)[token])
            ids.append(token)
        assert each.score == pytest.approx(score, abs=1e-3)


# Beginnings


def gpt_tokens() -> Tokenizer:
    return Tokenizer(gpts.byte_pairs().to_str())


def read_by(made: Generator, prompt: str) -> list[int]:
    seen: list[int] = []
    plain = made.model.prefill

    def prefill(ids, layout, state):
        seen.extend(ids.tolist())
        return plain(ids, layout, state)

    made.model.prefill = prefill
    made.generate(prompt, max_tokens=1)
    return seen


def test_a_prompt_is_read_behind_the_start_token_if_documents_have_one():
    made = generator()
    start, ids = made.tokenizer.require("start"), made.tokenizer.encode_batch(["The cat"])[0]
    assert made.begins
    assert read_by(generator(), "The cat") == [start, *ids]
    assert read_by(generator(), "") == [start]
    made.begins = False
    assert read_by(made, "The cat") == ids


def test_one_token_for_start_and_end_stands_before_empty_prompts_only_and_still_ends_texts():
    tokenizer = gpt_tokens()
    [end] = {tokenizer.require("start"), tokenizer.require("end")}
    made = Generator(model(len(tokenizer)), tokenizer)
    assert read_by(made, "the cat") == tokenizer.encode_batch(["the cat"])[0]
    assert read_by(Generator(model(len(tokenizer)), tokenizer), "") == [end]
    with torch.no_grad():
        made.model.head.bias[end] = 99.0
    [found] = made.generate("the cat")
    assert (found.text, found.finished) == ("", "end")


def test_nothing_to_go_on_from_is_an_error():
    bare = Tokenizer.train(
        TEXTS, TokenizerConfig(kind="byte-bpe", vocabulary=320, specials=Specials(start=None))
    )
    made = Generator(model(len(bare)), bare)
    assert not made.begins
    assert read_by(made, "The") == bare.encode_batch(["The"])[0]
    with pytest.raises(DataError, match=r"input:2: the prompt is empty; .*start token"):
        made.generate(["The", ""])


# The context


def test_a_text_stops_where_the_context_is_full_and_says_so():
    made = generator(longest=16)
    read = len(read_by(generator(), "The cat"))
    with pytest.warns(GenerationWarning, match="context of 16 tokens was full before 2 of"):
        found = made.generate("The cat", samples=2, max_tokens=100)
    assert all((len(each.ids), each.finished) == (16 - read, "length") for each in found)
    with pytest.warns(GenerationWarning, match="before 1 of"):
        streamed = "".join(made.stream("The cat", max_tokens=100))
    assert streamed == found[0].text
    made.generate("The cat", max_tokens=16 - read)  # as many as were asked for: no warning


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_sliding_goes_on_from_the_last_half_of_the_context(positions):
    made = generator(positions=positions, longest=12)
    made = Generator(made.model, made.tokenizer, longest=12)
    never = list(made.never_written)
    prompts = ["The", "two words, three words; a red house and a blue house"]
    found = made.generate(prompts, decoding=GREEDY, max_tokens=40, past="slide")
    for prompt, [each] in zip(prompts, found, strict=True):
        read = [made.tokenizer.require("start"), *made.tokenizer.encode_batch([prompt])[0]]
        for token in each.ids:
            read = read if len(read) <= 12 else read[-6:]
            following = scores_after(made, read)
            following[never] = -torch.inf
            assert int(following.argmax()) == token
            read.append(token)
        assert len(each.ids) == 40
        assert "".join(made.stream(prompt, decoding=GREEDY, max_tokens=40, past="slide")) == each.text


def test_a_prompt_that_leaves_no_room_is_refused_with_the_way_out():
    made = generator(longest=8)
    with pytest.raises(DataError, match=r"input:2: the prompt is too long: \d+ tokens, .*past='slide'"):
        made.generate(["a", "The cat sat on the mat. The dog ran."])
    [found] = made.generate("The cat sat on the mat. The dog ran.", past="slide", max_tokens=9)
    assert len(found.ids) == 9


def test_without_a_bound_a_model_of_rotary_positions_writes_on():
    made = generator(positions="rotary", longest=8)
    assert made.longest is None
    assert len(made.generate("The cat", max_tokens=30)[0].ids) == 30


# Ids


def test_ids_go_on_as_they_do_in_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs = gpts.build(transformers)
    folder = gpts.save(theirs, tmp_path / "gpt")
    ours = open_generator(folder, device="cpu")
    prompts = [[7, 9, 5, 3], [2], [40, 20, 21, 22, 6, 8, 11, 3]]
    found = ours.generate_ids(prompts, max_tokens=25)
    for prompt, new in zip(prompts, found, strict=True):
        [expected] = theirs.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            max_new_tokens=25,
            min_new_tokens=25,
            do_sample=False,
            pad_token_id=260,
            eos_token_id=None,
        ).tolist()
        assert [*prompt, *new] == expected


def test_ids_need_no_tokenizer_and_end_where_they_are_told_to():
    made = Generator(model(20), None)
    [free] = made.generate_ids([[3, 4]], max_tokens=15)
    assert len(free) == 15
    end = free[6]
    assert made.generate_ids([[3, 4]], max_tokens=15, end=end) == [free[: free.index(end)]]
    assert end not in made.generate_ids([[3, 4]], max_tokens=15, suppressed=[end])[0]
    drawn = [made.generate_ids([[3, 4]], max_tokens=15, decoding=SAMPLING, seed=seed) for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert made.generate_ids([], max_tokens=3) == []
    with pytest.raises(ValueError, match="use generate_ids"):
        made.generate("The cat")
    with pytest.raises(ValueError, match="prompt 1 has no ids"):
        made.generate_ids([[1], []])
    with pytest.raises(ValueError, match="ids are from 0 to 19"):
        made.generate_ids([[20]])
    with pytest.raises(ValueError, match="a beam looks for whole sentences"):
        made.generate_ids([[1]], decoding=DecodeConfig())


# The model, and folders


def test_the_model_is_left_as_it_was_and_its_dropout_does_not_write():
    made = generator()
    made.model.train()
    made.model.body.eval()
    modes = [part.training for part in made.model.modules()]
    first = made.generate("The cat", max_tokens=10)
    assert made.generate("The cat", max_tokens=10) == first
    assert "".join(made.stream("The cat", max_tokens=10)) == first[0].text
    assert [part.training for part in made.model.modules()] == modes
    begun = made.stream("The cat", max_tokens=10)
    next(begun)
    begun.close()
    assert [part.training for part in made.model.modules()] == modes


def test_bfloat16_is_for_the_model_only():
    made = Generator(generator().model, tokens(), precision="bfloat16")
    kinds = set()
    made.model.head.register_forward_hook(lambda *each: kinds.add(each[-1].dtype))
    for _ in made.stream("The cat", max_tokens=5):
        assert not torch.is_autocast_enabled("cpu")
        assert torch.is_grad_enabled()
    made.generate("The cat", max_tokens=5)
    assert kinds == {torch.bfloat16}


def test_progress_counts_prompts():
    done: list[int] = []
    generator().generate(PROMPTS, max_tokens=3, batch_tokens=20, progress=done.append)
    assert sum(done) == len(PROMPTS)
    assert len(done) > 1
    assert generator().generate([], max_tokens=3) == []


def test_a_folder_of_ours_opens_as_it_was_saved(tmp_path):
    made = generator()
    about = {"format": FORMAT, "task": "language", "model": to_dict(made.model.config), "longest": 40}
    write_json(tmp_path / "config.json", about)
    write_weights(tmp_path, whole(made.model))
    made.tokenizer.save(tmp_path / "tokenizer.json")
    opened = open_generator(tmp_path, device="cpu")
    assert (opened.longest, opened.begins, opened.precision) == (40, True, "float32")
    assert opened.generate("The cat", max_tokens=9) == made.generate("The cat", max_tokens=9)
    write_json(tmp_path / "config.json", {**about, "task": "translate"})
    with pytest.raises(FolderError, match="translate"):
        open_generator(tmp_path, device="cpu")


def test_a_scripted_text_comes_out_whole_with_all_that_is_known_of_it():
    tokenizer = tokens()
    ids = tokenizer.encode_batch([" sat on the mat."])[0]
    [found] = scripted(tokenizer, [*ids, tokenizer.require("end")]).generate("The cat")
    assert str(found) == "The cat sat on the mat."
    assert found.to_dict() == {
        "prompt": "The cat",
        "text": " sat on the mat.",
        "finished": "end",
        "score": pytest.approx(0.0, abs=1e-6),
        "tokens": len(ids),
    }
    json.dumps(found.to_dict())


REFUSED = {
    "past='halt' is none of": {"past": "halt"},
    "none of them empty": {"stop": ["a", ""]},
    "give a list of strings": {"stop": "end"},
    "a beam ranks texts": {"stop": ["a"], "decoding": DecodeConfig()},
    "batch_tokens=0": {"batch_tokens": 0},
    "greedy search finds one": {"decoding": GREEDY, "samples": 2},
    "2 keys for 1 prompts": {"keys": [1, 2]},
}


@pytest.mark.parametrize(("message", "wrong"), REFUSED.items(), ids=REFUSED.keys())
def test_impossible_wishes_are_refused(message, wrong):
    with pytest.raises(ValueError, match=message):
        generator().generate("The cat", **wrong)


def test_what_cannot_be_a_generator_or_a_stream_is_refused_at_once():
    made = generator(longest=16)
    with pytest.raises(ValueError, match="learned 16 positions"):
        Generator(made.model, made.tokenizer, longest=17)
    with pytest.raises(ValueError, match="leaves no room"):
        Generator(made.model, made.tokenizer, longest=1)
    with pytest.raises(ValueError, match="is none of float32, bfloat16"):
        Generator(made.model, made.tokenizer, precision="float16")
    with pytest.raises(ValueError, match="stream with method greedy or sample"):
        made.stream("The cat", decoding=DecodeConfig())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.stream("The cat").close()  # begun by nobody
