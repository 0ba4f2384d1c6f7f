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

STEMS = {
    "bert": "Bert",
    "roberta": "Roberta",
    "distilbert": "DistilBert",
    "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert",
    "mpnet": "MPNet",
    "modernbert": "ModernBert",
}
HEADS = {
    family: [
        "Model",
        "ForMaskedLM",
        *(["ForPreTraining"] if family == "bert" else []),
        "ForSequenceClassification",
        "ForTokenClassification",
        "ForQuestionAnswering",
    ]
    for family in STEMS
}
PADS = {"bert": 0, "distilbert": 0, "modernbert": 0}
"""The id of the pad token, where it is not 1: positions are counted from behind it."""
CASES = [(family, head) for family, heads in HEADS.items() for head in heads]


def word_pieces(family: str = "bert") -> tokenizers.Tokenizer:
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    if family == "mpnet":
        specials = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
    vocabulary = {token: id for id, token in enumerate([*specials, *WORDS])}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    if family == "mpnet":
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
        return tokenizer
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


def unigrams(family: str) -> tokenizers.Tokenizer:
    """Pieces of a SentencePiece model, numbered as fairseq does it."""
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    if family == "camembert":
        first = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"]
    pieces = ["▁", *(f"▁{word}" for word in WORDS if word.isalpha()), *sorted({*"".join(WORDS)})]
    scores = [(piece, 0.0) for piece in first] + [(piece, -float(len(piece) < 3) - 1) for piece in pieces]
    tokenizer = tokenizers.Tokenizer(models.Unigram([*scores, ("<mask>", 0.0)], first.index("<unk>"), False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<s>", "</s>", "<pad>")])
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<unk>", "<mask>")])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", first.index("<s>")), ("</s>", first.index("</s>"))],
    )
    return tokenizer


def tokenizer_of(family: str) -> tokenizers.Tokenizer:
    match family:
        case "roberta":
            return byte_pairs()
        case "xlm-roberta" | "camembert":
            return unigrams(family)
        case _:
            return word_pieces(family)


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
        if family == "modernbert":
            sizes |= {"num_hidden_layers": 4, "local_attention": 6, "pad_token_id": 0, "norm_eps": 1e-4}
            sizes |= {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
        sizes |= {"layer_norm_eps": 1e-5} if family not in PADS else {}
        sizes |= {"type_vocab_size": 1} if "roberta" in family or family == "camembert" else {}
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
    tokenizer_of(model.config.model_type).save(str(folder / "tokenizer.json"))
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
