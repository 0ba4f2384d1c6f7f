"""Tiny folders of every family and head, made by transformers on the spot."""

from pathlib import Path
from types import ModuleType

import tokenizers
import torch
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from regard.hub import Checkpoint
from regard.layout import Layout
from regard.models import Headed

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "dog",
    "##s",
    "ran",
    "to",
    "##wards",
    "it",
    ".",
    ",",
    "!",
]
TEXTS = ["The cat sat on a mat.", "dogs ran!", "a", "The dog and the cat ran towards it, and sat."]
PAIRS = [("the cat sat", "a dog ran towards it."), ("dogs", "cats, cats!"), ("a mat", "on the mat")]

HEADS = {
    "bert": ["Model", "ForMaskedLM", "ForPreTraining"],
    "roberta": ["Model", "ForMaskedLM"],
    "distilbert": ["Model", "ForMaskedLM"],
}
for _every in HEADS.values():
    _every += ["ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
STEMS = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}
CASES = [(family, head) for family, heads in HEADS.items() for head in heads]


def word_pieces() -> tokenizers.Tokenizer:
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {token: id for id, token in enumerate([*specials, *WORDS])}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def byte_pairs() -> tokenizers.Tokenizer:
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġt", "Ġth", "Ġthe", "at"]
    vocabulary = {token: id for id, token in enumerate([*specials, *letters])}
    merges = [("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e"), ("a", "t")]
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def build(hf: ModuleType, family: str, head: str, **settings):
    """A tiny model with weights far from their first values, biases and norms too, in eval mode."""
    sizes = {"vocab_size": 300, "max_position_embeddings": 64, "num_labels": 3}
    if family == "distilbert":
        sizes |= {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
    else:
        sizes |= {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 48,
        }
        sizes |= {"type_vocab_size": 1, "layer_norm_eps": 1e-5} if family == "roberta" else {}
    if head not in ("ForSequenceClassification", "ForTokenClassification"):
        del sizes["num_labels"]
    config = getattr(hf, f"{STEMS[family]}Config")(**{**sizes, **settings})
    model = getattr(hf, f"{STEMS[family]}{head}")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def save(model, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer = byte_pairs() if model.config.model_type == "roberta" else word_pieces()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def toy(hf: ModuleType, folder: Path, family: str = "bert", head: str = "Model", **settings) -> Path:
    return save(build(hf, family, head, **settings), folder)


def headed(checkpoint: Checkpoint) -> Headed:
    model = Headed(checkpoint.config)
    model.load_state_dict(checkpoint.weights, strict=False)
    assert {name for name, _ in model.named_parameters()} == checkpoint.weights.keys()
    return model.eval()


def batch(rows: list[list[int]], pad: int) -> tuple[dict[str, torch.Tensor], torch.Tensor, Layout]:
    """The same rows padded, as transformers takes them, and packed, as regard does."""
    longest = max(map(len, rows))
    padded = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    packed = torch.tensor([id for row in rows for id in row])
    return {"input_ids": padded, "attention_mask": mask}, packed, Layout.of([len(row) for row in rows])


def scores_of(output) -> torch.Tensor:
    """What a model of transformers gives; of an answerer, starts and ends side by side."""
    if "start_logits" in output:
        return torch.stack([output.start_logits, output.end_logits], dim=-1)
    return output[0]
