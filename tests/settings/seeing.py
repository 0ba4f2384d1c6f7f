"""What can be seen of a model, of a training run and of smaller things, so that two of them can be compared.

Each `see` function takes plain data and a name, and gives what is seen as plain values. Runs with equal data
are equal to the bit: a difference is the doing of the setting that differs.
"""

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from safetensors.torch import load_file
from torch import Tensor, nn

import regard
from regard.config import from_dict
from regard.data.corruption import Corruption
from regard.layout import Layout
from regard.look import claims
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.headed import Headed, HeadedConfig
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import DecoderConfig, EncoderConfig, Seq2SeqConfig
from regard.settings.training import MaskingConfig
from regard.tasks import run
from regard.tasks.base import job as jobs
from regard.tasks.registry import as_recipe
from regard.tasks.translation.check import check_recipe
from regard.text import DataError, Table, read_table_lines
from regard.train import checkpoint
from regard.train.ranks import Ranks
from regard.train.report import read_log
from tests.tasks.encoders.toys import texts

TEXTS = ["a red house", "old dog sees a big river", "blue tree"]
EPOCHS = 3


def plain(value: Any) -> Any:
    """Equal for equal things, NaN included."""
    if isinstance(value, Tensor):
        return plain(value.detach().numpy()) if value.dtype != torch.bfloat16 else plain(value.float())
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, hashlib.blake2b(value.tobytes(), digest_size=8).hexdigest())
    if is_dataclass(value) and not isinstance(value, type):
        return [plain(getattr(value, spec.name)) for spec in fields(value)]
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [plain(each) for each in value]
    return value if isinstance(value, str | bytes) else repr(value)


class SeenRun:
    """A training run, prepared or trained only as far as somebody looks."""

    def __init__(self, data: Mapping[str, Any], folder: Path) -> None:
        self.data, self.folder = data, folder
        self.said = io.StringIO()
        self.saved: list[int] = []

    @cached_property
    def job(self) -> jobs.Job:
        written = as_recipe(self.data)
        console = Console(file=self.said, width=300)
        job = run.prepare(written, self.folder, Ranks.join("cpu"), console)
        self.start = plain(job.model.state_dict())
        torch.manual_seed(0)
        self.loss = plain([job.loss(part).loss for _, part in job.feed.parts(1)])
        return job

    @cached_property
    def outcome(self) -> Any:
        """Of the whole training. Drawing its curve takes longer than all the rest, and is left out."""
        job, draw, write = self.job, jobs.draw_curve, checkpoint.write

        def noted(path: Path, tensors: Any, facts: Any) -> None:
            self.saved.append(facts["standing"]["step"])

        jobs.draw_curve, checkpoint.write = lambda *_: None, noted
        try:
            return jobs.train(job, self.folder, Console(file=io.StringIO()), begun=False)
        finally:
            jobs.draw_curve, checkpoint.write = draw, write

    def log(self, key: str) -> list[Any]:
        self.outcome  # noqa: B018
        return [(entry["step"], plain(entry[key])) for entry in read_log(self.folder) if key in entry]

    def see(self, name: str) -> Any:
        return getattr(self, f"see_{name}")()

    def see_tokenizer(self) -> Any:
        self.job  # noqa: B018
        return json.loads((self.folder / "tokenizer.json").read_text(encoding="utf-8"))

    def see_start(self) -> Any:
        """The weights before the first step."""
        self.job  # noqa: B018
        return self.start

    def see_learning(self) -> Any:
        """Which weights learn."""
        return [name for name, each in self.job.model.named_parameters() if each.requires_grad]

    def see_batches(self) -> Any:
        """Of the first epochs."""
        feed = self.job.feed
        steps = range(1, 1 + EPOCHS * feed.plan.steps(0))
        return [[plain(part.tensors()) for _, part in feed.parts(step)] for step in steps]

    def see_loss(self) -> Any:
        """Of the first step in training, before anything is learned."""
        self.job  # noqa: B018
        return self.loss

    def see_said(self) -> Any:
        self.job  # noqa: B018
        return self.said.getvalue()

    def see_checked(self) -> Any:
        """What the data doctor finds."""
        return [(each.name, each.count) for each in check_recipe(as_recipe(self.data)).findings]

    def see_losses(self) -> Any:
        return self.log("loss")

    def see_rates(self) -> Any:
        return self.log("rate")

    def see_valid(self) -> Any:
        return self.log("valid")

    def see_judged(self) -> Any:
        """By which figure models were chosen, and which way."""
        self.outcome  # noqa: B018
        found = json.loads((self.folder / "metrics.json").read_text())
        return found["metric"], found["better"]

    def see_steps(self) -> Any:
        return self.outcome.step

    def see_saved(self) -> Any:
        """Steps at which a checkpoint was written."""
        self.outcome  # noqa: B018
        return self.saved

    def see_weights(self) -> Any:
        """That were kept."""
        self.outcome  # noqa: B018
        return plain(load_file(self.folder / "model.safetensors"))

    def see_tested(self) -> Any:
        self.outcome  # noqa: B018
        return plain(json.loads((self.folder / "metrics.json").read_text(encoding="utf-8")).get("test"))

    def see_answers(self) -> Any:
        """What the model in the folder says when it is used."""
        self.outcome  # noqa: B018
        model = regard.load(self.folder, device="cpu")
        match self.data["task"]:
            case "translate":
                return plain([(each.text, each.alternatives) for each in model.translate(TEXTS)])
            case "tag":
                return plain(model.tag([text.split() for text in texts(20)]))
            case "rerank":
                return plain(model.scores(texts(20), texts(20, seed=1)))
            case "answer":
                return plain([each.to_dict() for each in model.answer(texts(20), texts(20, seed=1))])
            case task:
                raise NotImplementedError(task)

    def see_refused(self) -> Any:
        """What is said against it before the first step."""
        try:
            jobs.build_trainer(self.job, self.folder, Console(file=io.StringIO()))
        except (ValueError, DataError) as error:
            return str(error)
        return None


SEQUENCES, TARGETS = Layout.of([13, 3, 40]), Layout.of([9, 12, 30])


class SeenModel:
    """A model with random weights."""

    def __init__(self, root: str, data: Mapping[str, Any]) -> None:
        self.root, self.data = root, data

    @cached_property
    def model(self) -> nn.Module:
        torch.manual_seed(0)
        match self.root:
            case "encoder":
                return Encoder(from_dict(EncoderConfig, self.data))
            case "decoder":
                return Decoder(from_dict(DecoderConfig, self.data))
            case "seq2seq":
                return Seq2Seq(from_dict(Seq2SeqConfig, self.data))
            case _:
                return Headed(from_dict(HeadedConfig, self.data))

    def see(self, name: str) -> Any:
        match name:
            case "weights":
                learning = [name for name, _ in self.model.named_parameters()]
                return learning, plain(self.model.state_dict())
            case "refused":
                try:
                    self.see("eval")
                except ValueError as error:
                    return str(error)
                return None
            case "eval":
                return self._passed(self.model.eval())
            case "train":
                return self._passed(self.model.train())
        raise NotImplementedError(name)

    @torch.no_grad()
    def _passed(self, model: Any) -> Any:
        """What comes out, of weights that are far enough from zero for everything to be felt."""
        generator = torch.Generator().manual_seed(1)
        kept = {name: value.clone() for name, value in model.state_dict().items()}
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
        ids = torch.randint(8, (SEQUENCES.tokens,), generator=generator)
        target = torch.randint(8, (TARGETS.tokens,), generator=generator)
        torch.manual_seed(2)
        try:
            match self.root:
                case "decoder":
                    return plain(model.head(model(target, TARGETS)))
                case "seq2seq":
                    return plain(model.decoder.head(model(ids, SEQUENCES, target, TARGETS)))
                case _:
                    return plain(model(ids, SEQUENCES))
        finally:
            model.load_state_dict(kept)


def see_masking(data: Mapping[str, Any], name: str) -> Any:
    """Twelve epochs of three sequences with masks."""
    starts = np.arange(30) % 3 == 0
    made = Corruption(
        from_dict(MaskingConfig, data), mask=2, vocabulary=30, specials=[0, 1], seed=0, starts=starts
    )
    ids = np.arange(60) % 27 + 3
    return [plain(made.corrupt(ids, [30, 20, 10], [0, 1, 2], epoch)) for epoch in range(12)]


def see_claims(data: Mapping[str, Any], name: str) -> Any:
    """What is counted, or how often what is timed: the times themselves differ from run to run."""
    config = from_dict(claims.ClaimsConfig, data)
    match name:
        case "speeds":
            passes: list[Any] = []

            def noted(encoder: Any, layout: Layout, ids: Tensor) -> None:
                passes.append(
                    (len(encoder.body.state_dict()), encoder.config.d_model, layout.sequences, plain(ids))
                )

            built = claims.build_encoder

            def watched(*shape: Any, **more: Any) -> Any:
                encoder = built(*shape, **more)
                encoder.register_forward_pre_hook(lambda own, given: noted(own, given[1], given[0]))
                return encoder

            claims.build_encoder = watched
            try:
                found = claims.measure(config, device="cpu")
            finally:
                claims.build_encoder = built
            return passes, found.weights
        case _:
            return plain(getattr(claims.measure(config, device="cpu"), name))


def see_table(data: Mapping[str, Any], name: str) -> Any:
    """The lines of a table's column, or what is wrong with it."""
    given = dict(data)
    column = given.pop("column")
    try:
        return [line.text for line in read_table_lines(Table(**given), text=column)]
    except (DataError, ValueError) as error:
        return str(error)


SMALL: dict[str, Callable[[Mapping[str, Any], str], Any]] = {
    "masking": see_masking,
    "claims": see_claims,
    "table": see_table,
}


class SeenSmall:
    """What takes no time."""

    def __init__(self, root: str, data: Mapping[str, Any]) -> None:
        self.root, self.data = root, data

    def see(self, name: str) -> Any:
        return SMALL[self.root](self.data, name)
