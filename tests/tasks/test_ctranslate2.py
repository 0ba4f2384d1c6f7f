"""Translators exported for CTranslate2: they write what the model writes, or are refused."""

import io
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from regard.config import ConfigError, to_dict
from regard.decode import DecodeConfig
from regard.deploy import exchange
from regard.deploy import export as exporting
from regard.deploy.engine import CTranslate2Engine, open_deployed, token_names
from regard.deploy.export import Agreement, ExportError, export, sampled_texts
from regard.hub import HubError
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import Seq2SeqConfig
from regard.settings.network import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    NormConfig,
    PositionsConfig,
)
from regard.tasks.base.folder import FolderError, whole, write_json, write_weights
from regard.tasks.translation import commands
from regard.tasks.translation.translator import Translator
from tests.models.families import MODERN, transformer
from tests.tasks import copying

pytest.importorskip("ctranslate2")

ROTARY = PositionsConfig(kind="rotary")
BODIES = {
    "sinusoidal, post-norm": (transformer(), PositionsConfig()),
    "learned, pre-norm": (
        transformer(norm=NormConfig(place="pre", eps=0.1)),
        PositionsConfig(kind="learned", longest=64, first=2),
    ),
    "rotary, gelu": (transformer(feed_forward=FeedForwardConfig(d_ff=64, activation="gelu")), ROTARY),
    "rotary, linear": (transformer(), replace(ROTARY, scaling="linear", factor=2.0)),
    "rotary, ntk": (transformer(), replace(ROTARY, scaling="ntk", factor=2.0)),
    "modern": (MODERN, replace(ROTARY, base=500.0)),
    "geglu, other widths": (
        transformer(
            attention=AttentionConfig(heads=3, d_head=8, kv_heads=1),
            feed_forward=FeedForwardConfig(d_ff=48, activation="geglu"),
        ),
        PositionsConfig(),
    ),
    "a final norm, no positions": (transformer(final_norm=True), PositionsConfig(kind="none")),
}
SEARCHES = {
    "greedy": DecodeConfig(method="greedy", maximum=16),
    "beam": DecodeConfig(beam=4, n_best=3, length_penalty=0.6, maximum=16),
    "plain scores": DecodeConfig(beam=3, length_penalty=0.0, maximum=16),
    "repeating costs": DecodeConfig(beam=3, repetition_penalty=1.3),
    "few tokens": DecodeConfig(beam=3, n_best=2, maximum=4),
    "no tokens": DecodeConfig(beam=2, maximum=0),
}
TEXTS = [*copying.sentences(8, seed=3), "", "  silver  ", ". ".join(copying.sentences(6, seed=4, most=4))]


def shaped(body, positions: PositionsConfig, *, languages: tuple[str, ...] = (), **settings) -> Translator:
    """With random weights, but as sure of itself as one that has learned: special tokens have next to no
    probability, and ends come."""
    torch.manual_seed(0)
    own = copying.tokenizer(*languages)
    plain = copying.model("transformer, sinusoidal", len(own)).config
    embedding = settings.pop("embedding", EmbeddingConfig(dropout=0.0))
    shared = {"body": body, "positions": positions, "embedding": embedding}
    decoder = replace(plain.decoder, **shared, head_bias=True, tied=settings.pop("tied", False))
    config = Seq2SeqConfig(
        encoder=replace(plain.encoder, **shared), decoder=decoder, shared=settings.pop("shared", True)
    )
    model = Seq2Seq(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "norm.weight")):
                parameter += 0.1 * torch.randn_like(parameter)
        if not decoder.tied:
            model.decoder.head.weight *= 4
        model.decoder.head.bias[[own.vocabulary[token] for token in own.specials]] = -100.0
        model.decoder.head.bias[own.require("end")] = 5.0
    decoding = DecodeConfig(beam=2, maximum=12)
    return Translator(model, own, longest=copying.LONGEST, languages=languages, decoding=decoding)


def exported(translator: Translator, folder: Path, **settings) -> Translator:
    export(translator, folder, samples=TEXTS[:2], console=Console(quiet=True), **settings)
    return open_deployed(folder, device="cpu")


def assert_same(theirs: Translator, ours: Translator, **settings) -> None:
    for other, own in zip(
        theirs.translate(TEXTS, **settings), ours.translate(TEXTS, **settings), strict=True
    ):
        assert [each.text for each in other.alternatives] == [each.text for each in own.alternatives]
        assert [each.finished for each in other.alternatives] == [each.finished for each in own.alternatives]
        assert (other.pieces, other.unknown) == (own.pieces, own.unknown)
        assert other.score == pytest.approx(own.score, abs=1e-3)
        assert other.ranking == pytest.approx(own.ranking, abs=1e-3)


@pytest.fixture(scope="module")
def ours() -> Translator:
    return shaped(*BODIES["sinusoidal, post-norm"])


@pytest.fixture(scope="module")
def out(ours: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deploy") / "out"
    exported(ours, folder)
    return folder


@pytest.fixture(scope="module")
def theirs(out: Path) -> Translator:
    return open_deployed(out, device="cpu")


def saved(translator: Translator, folder: Path) -> Path:
    """As a training leaves it."""
    about = {
        "model": to_dict(translator.model.config),
        "longest": translator.longest,
        "languages": list(translator.languages),
        "decode": to_dict(translator.decoding),
    }
    folder.mkdir()
    write_json(folder / "config.json", {"format": 1, "task": "translate", **about})
    write_weights(folder, whole(translator.model))
    translator.tokenizer.save(folder / "tokenizer.json")
    return folder


@pytest.mark.parametrize("family", BODIES)
def test_every_family_that_goes_writes_the_same(family, tmp_path):
    translator = shaped(*BODIES[family])
    deployed = exported(translator, tmp_path / "out")
    assert_same(deployed, translator, decoding=SEARCHES["greedy"])
    assert_same(deployed, translator, decoding=SEARCHES["beam"])


@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_finds_the_same_with_the_same_scores(search, ours, theirs):
    assert_same(theirs, ours, decoding=SEARCHES[search])


@pytest.mark.parametrize("rule", [{"no_repeat": 2}, {"minimum": 14}])
def test_rules_forbid_the_same_tokens(rule, ours, theirs):
    """In greedy search; beams may differ, since what is forbidden leaves its probability to the others."""
    decoding = DecodeConfig(method="greedy", maximum=16, **rule)
    found, own = (each.translate(TEXTS, decoding=decoding) for each in (theirs, ours))
    assert [each.text for each in found] == [each.text for each in own]
    free = ours.translate(TEXTS, decoding=SEARCHES["greedy"])
    assert [each.text for each in own] != [each.text for each in free]


def test_every_source_has_its_own_maximum(ours, theirs, monkeypatch):
    half = lambda self, piece, config: replace(piece, maximum=len(piece.ids) // 2)  # noqa: E731
    monkeypatch.setattr(Translator, "limited", half)
    assert_same(theirs, ours, decoding=SEARCHES["greedy"])
    assert_same(theirs, ours, decoding=SEARCHES["beam"])


def test_tied_and_normed_and_unscaled_embeddings_are_the_same(tmp_path):
    embedding = EmbeddingConfig(scaled=False, normed=True, dropout=0.0)
    translator = shaped(*BODIES["sinusoidal, post-norm"], embedding=embedding, tied=True, shared=False)
    assert_same(exported(translator, tmp_path / "out"), translator)


def test_a_text_does_not_depend_on_its_company(theirs):
    together = theirs.translate(TEXTS)
    alone = [theirs.translate(text) for text in TEXTS]
    assert [each.text for each in alone] == [each.text for each in together]
    assert [each.text for each in theirs.translate(TEXTS, batch_tokens=1)] == [each.text for each in together]


def test_languages_are_told_as_the_model_was(tmp_path):
    translator = shaped(*BODIES["sinusoidal, post-norm"], languages=("de", "fr"))
    deployed = exported(translator, tmp_path / "out")
    for to in translator.languages:
        assert_same(deployed, translator, to=to)
    with pytest.raises(ValueError, match="say to which, one of de, fr"):
        deployed.translate("silver")


def test_words_can_be_suppressed(ours, theirs):
    words = ours.translate(TEXTS[0], decoding=SEARCHES["greedy"]).text.split()
    unwanted = next(word for word in words if word in ours._spellings)
    settings = {"decoding": SEARCHES["greedy"], "suppressed": [unwanted]}
    assert [each.text for each in theirs.translate(TEXTS, **settings)] == [
        each.text for each in ours.translate(TEXTS, **settings)
    ]


def test_int8_is_measured_against_float32(ours, out, tmp_path):
    said = io.StringIO()
    export(ours, tmp_path / "out", precision="int8", samples=TEXTS[:6], console=Console(file=said, width=200))
    lines = said.getvalue().splitlines()
    assert lines[1:3] == [
        "float32, greedy: 6 of 6 texts the same, BLEU 100.00 of one against the other",
        "float32, beam of 2: 6 of 6 texts the same, BLEU 100.00 of one against the other",
    ]
    assert [line.split(":")[0] for line in lines[3:6]] == ["int8", "int8, greedy", "int8, beam of 2"]
    rounded = open_deployed(tmp_path / "out", device="cpu")
    exact = open_deployed(tmp_path / "out", device="cpu", precision="float32")
    assert (rounded.engine.engine.compute_type, exact.engine.engine.compute_type) == (
        "int8_float32",
        "float32",
    )
    sizes = [(folder / "model.bin").stat().st_size for folder in (tmp_path / "out", out)]
    assert sizes[0] < sizes[1]


def test_the_model_is_as_it_was_after_an_int8_export(ours, tmp_path):
    before = {name: weight.clone() for name, weight in ours.model.state_dict().items()}
    exported(ours, tmp_path / "out", precision="int8")
    after = ours.model.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


def test_a_model_that_came_out_different_is_not_kept(ours, tmp_path, monkeypatch):
    from regard.deploy import spec

    monkeypatch.setattr(spec, "ACTIVATIONS", {**spec.ACTIVATIONS, "relu": spec.ACTIVATIONS["gelu"]})
    with pytest.raises(ExportError, match="more than rounding"):
        export(ours, tmp_path / "out", console=Console(quiet=True))
    assert list(tmp_path.iterdir()) == []


def test_texts_that_differ_too_far_are_refused(ours, tmp_path, monkeypatch):
    monkeypatch.setitem(exporting.LEAST, "int8", 101.0)
    with pytest.raises(
        ExportError, match="at least 101 is wanted in int8: nothing was kept; export in float32"
    ):
        export(ours, tmp_path / "out", precision="int8", console=Console(quiet=True))
    assert list(tmp_path.iterdir()) == []


def test_agreement_counts_and_scores():
    assert Agreement.of(["", "a"], ["", "a"]) == Agreement(2, 2, 100.0)
    half = Agreement.of(["a b c d e f", "a b c d e f"], ["a b c d e f", "u v w x y z"])
    assert (half.same, half.count) == (1, 2)
    assert 0 < half.bleu < 100


def test_sampled_texts_are_in_the_models_own_words(ours):
    texts = sampled_texts(ours.tokenizer, ours.longest, 10)
    assert texts == sampled_texts(ours.tokenizer, ours.longest, 10)
    assert len(set(texts)) > 5
    assert all(ours.tokenizer.ids.unknown not in ids for ids in ours.tokenizer.encode_batch(texts))


@pytest.mark.parametrize(
    ("family", "setting"),
    [
        ("lstm, additive", "body.kind='recurrent'"),
        ("transformer, relative", "positions.kind='relative'"),
        ("transformer, alibi", "positions.kind='alibi'"),
        ("transformer, window", "body.window=2"),
        ("transformer, free widths", "attention.d_value=12"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(family, setting, tmp_path):
    with pytest.raises(
        ConfigError, match=f"{setting}: CTranslate2 cannot do it, .*; train .* --engine regard"
    ):
        export(copying.translator(family), tmp_path / "out", console=Console(quiet=True))
    assert list(tmp_path.iterdir()) == []


def test_other_refusals_of_the_shape(tmp_path):
    yarn = replace(ROTARY, scaling="yarn", factor=2.0, trained=16)
    pruned = transformer(kept_heads=((0, 1), (0, 1, 2)))
    for body, positions, settings, named in (
        (transformer(), yarn, {}, "scaling='yarn'"),
        (pruned, PositionsConfig(), {}, "kept_heads"),
        (transformer(), PositionsConfig(), {"embedding": EmbeddingConfig(segments=2)}, "segments=2"),
    ):
        with pytest.raises(ConfigError, match=named):
            export(shaped(body, positions, **settings), tmp_path / "out", console=Console(quiet=True))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"decoding": DecodeConfig(method="sample")}, "method='sample'"),
        ({"decoding": DecodeConfig(stop="exact")}, "stop='exact'"),
        ({"align": True}, "align"),
        ({"prefixes": ["silver"]}, "prefixes"),
    ],
)
def test_what_it_lacks_in_searching_is_refused(settings, named, theirs):
    with pytest.raises(ConfigError, match=f"^{named}: not with CTranslate2"):
        theirs.translate(["silver"], **settings)
    with pytest.raises(ConfigError, match=r"^align: not with CTranslate2"):
        theirs.align("silver", "silver")


def test_a_default_that_it_lacks_becomes_the_one_it_has(ours, tmp_path):
    exact = Translator(ours.model, ours.tokenizer, longest=24, decoding=DecodeConfig(stop="exact"))
    assert exported(exact, tmp_path / "out").decoding == DecodeConfig(stop="full")


def test_inputs_past_the_exported_positions_are_refused(theirs):
    facts = replace(theirs.engine.facts, positions=10)
    engine = CTranslate2Engine(theirs.engine.engine, facts, theirs.tokenizer, device="cpu")
    short = Translator(theirs.model, theirs.tokenizer, longest=theirs.longest, engine=engine)
    with pytest.raises(ValueError, match="but 10 positions were exported: translate with too_long='split'"):
        short.translate(" ".join(copying.WORDS))


def test_rows_without_a_token_have_names_of_their_own():
    own = copying.tokenizer()
    names = token_names(own, len(own) + 3)
    assert [own.vocabulary[name] for name in names[: len(own)]] == list(range(len(own)))
    assert len(set(names)) == len(own) + 3


def test_a_folder_stands_alone_and_the_command_line_runs_it(ours, theirs, tmp_path, capsys):
    model = saved(ours, tmp_path / "model")
    samples = tmp_path / "samples.txt"
    samples.write_text("\n".join(TEXTS[:4]) + "\n", encoding="utf-8")
    said = Console(file=io.StringIO())
    exchange.export_model(model, tmp_path / "out", to="ctranslate2", samples=samples, console=said)
    shutil.rmtree(model)
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    commands.translate(moved, str(samples), out=sys.stdout, engine="ctranslate2", device="cpu")
    expected = [ours.translate(text).text for text in TEXTS[:4]]
    assert capsys.readouterr().out.splitlines() == expected
    with pytest.raises(FolderError, match="exported for CTranslate2; translate with --engine ctranslate2"):
        commands.open_by_engine(moved, "regard", "cpu", None)


def test_engines_are_not_mistaken_for_each_other(ours, tmp_path):
    model, console = saved(ours, tmp_path / "model"), Console(quiet=True)
    with pytest.raises(FolderError, match=r"not exported, it has no regard\.json"):
        commands.open_by_engine(model, "ctranslate2", "cpu", None)
    assert commands.open_by_engine(model, "regard", "cpu", "int8").precision == "int8"
    with pytest.raises(HubError, match=r"positions.* has no place in a Hugging Face folder"):
        exchange.export_model(model, tmp_path / "out", console=console)
    with pytest.raises(ConfigError, match="--precision is for --to ctranslate2"):
        exchange.export_model(model, tmp_path / "out", precision="int8", console=console)
    with pytest.raises(ConfigError, match="is there already"):
        exchange.export_model(model, model, to="ctranslate2", console=console)
    (tmp_path / "blank.txt").write_text("\n\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no text in it"):
        exchange.export_model(
            model, tmp_path / "out", to="ctranslate2", samples=tmp_path / "blank.txt", console=console
        )


@pytest.fixture
def copy(out: Path, tmp_path: Path) -> Path:
    return shutil.copytree(out, tmp_path / "copy")


@pytest.mark.parametrize("name", ["model.bin", "config.json", "tokenizer.json", "shared_vocabulary.json"])
def test_an_incomplete_folder_is_refused_by_the_name_of_the_file(name, copy):
    path = copy / name
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FolderError, match=f"{name}: not what was written, it may be cut short"):
        open_deployed(copy)
    path.unlink()
    with pytest.raises(FolderError, match=f"{name}: not there; copy the folder anew"):
        open_deployed(copy)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "of another version"),
        ({"files": {"../copy/model.bin": ""}}, "its files must be"),
        ({"files": ["model.bin"]}, "its files must be"),
        ({"engine": "other"}, "engine"),
        ({"longest": 0}, "longest=0 must be at least 3"),
        ({"languages": 3}, "languages"),
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"model": {}}, "model"),
    ],
)
def test_a_folder_that_says_nonsense_of_itself_is_refused(change, reason, copy):
    facts = json.loads((copy / "regard.json").read_text(encoding="utf-8"))
    (copy / "regard.json").write_text(json.dumps({**facts, **change}), encoding="utf-8")
    with pytest.raises(FolderError, match=reason):
        open_deployed(copy)


def test_text_in_the_place_of_facts_is_refused(copy):
    for content in ("[]", "{", "3"):
        (copy / "regard.json").write_text(content, encoding="utf-8")
        with pytest.raises(FolderError, match=r"regard\.json: "):
            open_deployed(copy)


def test_devices_and_precisions_that_are_not_there_are_refused(out):
    with pytest.raises(ValueError, match="device='tpu' is not known"):
        open_deployed(out, device="tpu")
    with pytest.raises(ValueError, match="device='cuda:64' is not there"):
        open_deployed(out, device="cuda:64")
    with pytest.raises(ConfigError, match="precision='float8' is not computed"):
        open_deployed(out, device="cpu", precision="float8")


def test_without_the_package_the_remedy_is_said(ours, out, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    for attempt in (
        lambda: open_deployed(out),
        lambda: export(ours, tmp_path / "new", console=Console(quiet=True)),
    ):
        with pytest.raises(ConfigError, match=r"pip install regard\[deploy\]"):
            attempt()
