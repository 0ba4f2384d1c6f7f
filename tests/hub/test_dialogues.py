"""Fine-tuning on dialogues: the template of the folder, a loss on answers only, whole or by adapters."""

import io
import itertools
import json
import operator
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

import regard
from regard.deploy.exchange import export_model
from regard.hub import read_decoder
from regard.layout import Layout
from regard.tasks.language.data import block_batch
from regard.tasks.language.dialogue import render
from regard.tasks.language.dialogues import encoded, messages_of
from regard.tasks.language.generator import open_generator
from regard.tasks.language.template_bounds import ChatError
from regard.text import DataError
from regard.train.objectives import HIDDEN
from tests.hub.llamas import END, TURN, build, byte_pairs, save, sentence_pieces

PLAIN = (
    "{% for message in messages %}"
    f"{TURN}{{{{ message.role }}}}\n{{{{ message['content'] }}}}{END}\n"
    "{% endfor %}{% if add_generation_prompt %}" + TURN + "assistant\n{% endif %}"
)
THINKING = """{% set ns = namespace(last=-1) %}{% for m in messages %}
{%- if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}
{%- if m.role != 'assistant' %}{{- 'TURN' + m.role + '\\n' + m.content + 'END\\n' }}
{%- else %}
{%- set said, thought = m.content, '' %}
{%- if '</think>' in m.content %}
{%- set thought = m.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
{%- set said = m.content.split('</think>')[-1].lstrip('\\n') %}{% endif %}
{{- 'TURNassistant\\n' }}
{%- if loop.index0 > ns.last %}{{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}{% endif %}
{{- said + 'END\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- 'TURNassistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}""".replace("TURN", TURN).replace("END", END)
"""As Qwen3's: what was thought before the last question is left out."""
MARKED = """{{ bos_token }}{%- for m in messages %}
{%- if m.role == 'assistant' %}
TURNassistant:\x20
{%- generation %}
{%- set said = m.content | trim %}{{- said + ' (' ~ loop.index ~ ')END' -}}
{% endgeneration %}
{%- else %}{{- 'TURN' + m.role + ': ' + m.content }}{% endif %}
{%- endfor %}{{ said }}."""
MARKED = MARKED.replace("TURN", TURN).replace("END", END)
"""As those that say themselves what the assistant writes."""
TALK = [
    {"role": "user", "content": "the cat"},
    {"role": "assistant", "content": "sat"},
    {"role": "user", "content": "on the mat?"},
    {"role": "assistant", "content": "yes"},
]


@pytest.fixture
def folder(hf, tmp_path):
    save(build(hf, "Llama", max_position_embeddings=256), tmp_path / "model")
    (tmp_path / "model" / "chat_template.jinja").write_text(PLAIN)
    return tmp_path / "model"


def learned_text(checkpoint, messages) -> list[list[str]]:
    """Of each example, the stretches that are learned."""
    return [
        [
            checkpoint.tokenizer.decode([id for id, _ in part], skip_specials=False)
            for mark, part in itertools.groupby(zip(*example, strict=True), key=operator.itemgetter(1))
            if mark
        ]
        for example in encoded(messages, checkpoint.tokenizer, checkpoint.conventions)
    ]


def test_answers_and_their_ends_are_learned_and_nothing_else(folder):
    assert learned_text(read_decoder(folder), TALK) == [[f"sat{END}", f"yes{END}"]]


def test_where_earlier_answers_are_written_otherwise_each_answer_is_an_example_as_it_is_asked_for(folder):
    (folder / "chat_template.jinja").write_text(THINKING)
    checkpoint = read_decoder(folder)
    thought = [*TALK[:3], {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes"}]
    assert learned_text(checkpoint, thought) == [
        [f"<think>\n\n</think>\n\nsat{END}"],
        [f"<think>\nhm\n</think>\n\nyes{END}"],
    ]
    prompt = open_generator(folder).prompt
    for count, (ids, learned) in zip(
        (1, 3), encoded(thought, checkpoint.tokenizer, checkpoint.conventions), strict=True
    ):
        asked = prompt(thought[:count]).ids
        assert ids[: len(asked)] == asked
        assert learned.index(1) == len(asked)
    assert len(learned_text(checkpoint, TALK[:2])) == 1


@pytest.mark.parametrize("make", [byte_pairs, sentence_pieces], ids=["bytes", "pieces"])
def test_what_a_template_marks_is_learned_and_is_what_transformers_finds(hf, tmp_path, make):
    pieces = make is sentence_pieces
    ends = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"} if pieces else {}
    save(build(hf, "Llama"), tmp_path, make(), **ends)
    template = MARKED.replace(TURN, "<s>").replace(END, "</s>") if pieces else MARKED
    (tmp_path / "chat_template.jinja").write_text(template)
    checkpoint = read_decoder(tmp_path)
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path).apply_chat_template(
        TALK, return_assistant_tokens_mask=True, return_dict=True
    )
    [(ids, learned)] = encoded(TALK, checkpoint.tokenizer, checkpoint.conventions)
    assert ids == theirs["input_ids"]
    assert learned == theirs["assistant_masks"]
    assert 0 < sum(learned) < len(learned)


def test_what_a_message_says_neither_ends_nor_moves_what_is_marked(folder):
    (folder / "chat_template.jinja").write_text(MARKED)
    checkpoint = read_decoder(folder)
    said = [
        {"role": "user", "content": f"a{END}{TURN}"},
        {"role": "assistant", "content": f" b{END}c \ue000"},
    ]
    assert learned_text(checkpoint, said) == [[f"b{END}c \ue000 (2){END}"]]
    [(ids, _)] = encoded(said, checkpoint.tokenizer, checkpoint.conventions)
    plain = render(MARKED, checkpoint.tokenizer, said, answer=False)
    assert (ids, checkpoint.tokenizer.decode(ids, skip_specials=False)) == (plain.ids, plain)


def test_dialogues_are_read_in_every_usual_form():
    pair = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    for line in (
        {"messages": pair},
        pair,
        {"instruction": "a", "output": "b"},
        {"prompt": "a", "completion": "b"},
        {"question": "a", "answer": "b"},
    ):
        assert messages_of(json.dumps(line)) == pair
    longer = messages_of(json.dumps({"instruction": "a", "input": "c", "output": "b", "system": "s"}))
    assert [each["content"] for each in longer] == ["s", "a\nc", "b"]
    for line, word in (("{", "no JSON"), ("3", "no table"), ('{"text": "a"}', "neither messages")):
        with pytest.raises(ChatError, match=word):
            messages_of(line)


def test_what_cannot_be_learned_is_refused(folder):
    checkpoint = read_decoder(folder)
    for messages, word in ((TALK[:1], "nothing to learn"), (TALK[1:], "speaks first")):
        with pytest.raises(ChatError, match=word):
            encoded(messages, checkpoint.tokenizer, checkpoint.conventions)
    empty = replace(checkpoint.conventions, chat_template="{% generation %}{% endgeneration %}")
    with pytest.raises(ChatError, match="marks no answer"):
        encoded(TALK, checkpoint.tokenizer, empty)
    counted = replace(checkpoint.conventions, chat_template="{{ messages | length * 9999 }}, {{ messages }}")
    with pytest.raises(ChatError, match="what is before an answer otherwise"):
        encoded(TALK, checkpoint.tokenizer, counted)


def test_labels_of_a_batch_are_the_answers_tokens(folder):
    checkpoint = read_decoder(folder)
    [example] = encoded(TALK, checkpoint.tokenizer, checkpoint.conventions)
    ids, learned = map(np.array, example)
    batch = block_batch(ids, np.array([0]), np.array([len(ids) - 1]), None, learned)
    labels = batch.labels.numpy()
    expected = np.where(learned[1:] > 0, ids[1:], HIDDEN)
    assert labels[: len(expected)].tolist() == expected.tolist()


def write(path, count: int = 24) -> None:
    talks = [
        {"messages": [{"role": "user", "content": f"{n}"}, {"role": "assistant", "content": "the cat sat"}]}
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(talk) + "\n" for talk in talks))


@pytest.mark.parametrize("rank", [0, 4], ids=["whole", "adapters"])
def test_a_model_learns_its_answers_and_keeps_its_template(hf, folder, tmp_path, rank):
    write(tmp_path / "train.jsonl")
    recipe = {
        "task": "language",
        "data": {"train": "train.jsonl", "root": str(tmp_path), "documents": "messages"},
        "model": {"start": str(folder), **({"adapter": {"rank": rank}} if rank else {})},
        "context": {"tokens": 128},
        "batch": {"tokens": 512},
        "optimizer": {"learning_rate": 0.01 if not rank else 0.05, "schedule": "constant", "warmup": 1},
        "average": {"decay": 0.0},
        "train": {"steps": 60, "validate_every": 30, "log_every": 30},
    }
    before = open_generator(folder)
    asked = [{"role": "user", "content": "7"}]
    greedy = regard.DecodeConfig(method="greedy", maximum=24)
    assert before.chat(asked, decoding=greedy).text != "the cat sat"
    regard.fit(recipe, out=tmp_path / "out")
    after = open_generator(tmp_path / "out")
    answer = after.chat(asked, decoding=greedy)
    if not rank:
        assert answer.text == "the cat sat"
        assert answer.finished == "end"
    assert after.conventions == before.conventions
    assert after.longest == before.longest == 256
    assert (tmp_path / "out" / "adapter" / "adapter.safetensors").exists() == bool(rank)
    loss = json.loads((tmp_path / "out" / "metrics.json").read_text())["valid"]["loss"]
    assert loss == pytest.approx(by_hand(after, tmp_path), abs=0.05)
    assert loss < 0.75 * by_hand(before, tmp_path)


def by_hand(generator, folder) -> float:
    """The mean loss of an answer's tokens."""
    total, count = 0.0, 0
    for line in (folder / "train.jsonl").read_text().splitlines():
        [(ids, learned)] = encoded(messages_of(line), generator.tokenizer, generator.conventions)
        with torch.no_grad():
            scores = generator.model.head(generator.model(torch.tensor(ids), Layout.of([len(ids)])))
        losses = torch.nn.functional.cross_entropy(scores[:-1], torch.tensor(ids[1:]), reduction="none")
        kept = torch.tensor(learned[1:]) > 0
        total, count = total + float(losses[kept].sum()), count + int(kept.sum())
    return total / count


def recipe_of(folder, tmp_path, **data) -> dict:
    return {
        "task": "language",
        "data": {"root": str(tmp_path), "documents": "messages", **data},
        "model": {"start": str(folder)},
        "train": {"steps": 1},
    }


def fit(recipe, out, **settings) -> str:
    said = io.StringIO()
    regard.fit(recipe, out=out, console=Console(file=said, width=200), device="cpu", **settings)
    return said.getvalue()


def test_a_line_that_is_no_dialogue_is_told_by_its_place_or_left_out(folder, tmp_path):
    write(tmp_path / "one.jsonl")
    write(tmp_path / "two.jsonl", 3)
    more = f"\n\nno json\n{json.dumps(TALK[:2])}\n{json.dumps(TALK[:1])}\n"
    (tmp_path / "two.jsonl").write_text((tmp_path / "two.jsonl").read_text() + more)
    data = {"train": ["one.jsonl", "two.jsonl"], "hold_out": 2}
    with pytest.raises(DataError, match=r"two\.jsonl:6: no dialogue \(no JSON.*data\.on_error=skip"):
        fit(recipe_of(folder, tmp_path, **data), tmp_path / "out")
    said = fit(recipe_of(folder, tmp_path, **data, on_error="skip"), tmp_path / "out")
    assert "left out: 2 skipped: 2 no dialogue" in said
    assert "two.jsonl:6" in said
    assert "two.jsonl:8" in said
    assert "in 26 documents to learn from" in said  # of 28, two of them held out
    with pytest.raises(ValueError, match=r"model\.start"):
        fit({**recipe_of(folder, tmp_path, **data), "model": {}}, tmp_path / "out")


def test_a_dialogue_that_the_template_refuses_is_told_by_its_place_or_left_out(folder, tmp_path):
    refusing = "{% if messages[0].content == '7' %}{{ raise_exception('no seven') }}{% endif %}" + PLAIN
    (folder / "chat_template.jinja").write_text(refusing)
    write(tmp_path / "train.jsonl")
    data = {"train": "train.jsonl", "valid": "train.jsonl"}
    with pytest.raises(DataError, match=r"train\.jsonl:8: no dialogue \(.*no seven.*data\.on_error=skip"):
        fit(recipe_of(folder, tmp_path, **data), tmp_path / "out")
    said = fit(recipe_of(folder, tmp_path, **data, on_error="skip"), tmp_path / "out")
    assert "left out: 2 dialogues that the chat template takes no example from" in said
    assert "in 23 documents to learn from" in said
    assert json.loads((tmp_path / "out" / "data.json").read_text())["skipped"] == 2


def test_dialogues_of_several_answers_are_learned_from_whatever_the_template_does(folder, tmp_path):
    (folder / "chat_template.jinja").write_text(THINKING)
    (tmp_path / "train.jsonl").write_text(f"{json.dumps(TALK)}\n" * 3)
    said = fit(recipe_of(folder, tmp_path, train="train.jsonl", valid="train.jsonl"), tmp_path / "out")
    assert "12 examples of 6 dialogues" in said


def test_a_context_that_nobody_sets_is_what_the_start_reads_and_a_longer_one_is_exported(folder, tmp_path):
    write(tmp_path / "train.jsonl")
    recipe = recipe_of(folder, tmp_path, train="train.jsonl")
    fit(recipe, tmp_path / "usual")
    assert "tokens = 256" in (tmp_path / "usual" / "recipe.toml").read_text()
    fit({**recipe, "context": {"tokens": 300}}, tmp_path / "longer")
    export_model(tmp_path / "longer", tmp_path / "hf", console=Console(file=io.StringIO()))
    assert read_decoder(tmp_path / "hf").longest == 300
