"""Any image-text-to-text model of Hugging Face transformers: Qwen-VL, SmolVLM, Idefics, LLaVA, Gemma, InternVL ...

A batch is one forward pass for all requests whose answer is a choice, and one generation for all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.backend import Capabilities, InputSpec, ModelInput, ModelOutput, check_batch
from rosa_server.models.language.pictures import USUAL_PX, shows, usual
from rosa_server.models.language.questions import Question, question_of
from rosa_server.models.language.questions import questions as questions_of
from rosa_server.models.registry import BackendError
from rosa_server.models.requirements import needs

ENVIRONMENT = "transformers"
DTYPES = ("auto", "float32", "bfloat16", "float16")


class TransformersVlmBackend:
    """Answers a verdict by the likelihoods of the allowed words, or a text."""

    def __init__(
        self,
        model: str,
        cameras: Sequence[str] = ("front",),
        questions: Mapping[str, Mapping[str, Any]] | None = None,
        device: str = "cpu",
        dtype: str = "auto",
        max_batch: int = 8,
        download: bool = False,
        threads: int = 1,
    ) -> None:
        """`model`: a folder, or a name of the hub whose files are in its cache; `download`: fetch them if they are not.

        `questions`: by component, see `questions.py`. Raises `ValueError`.
        """
        if dtype not in DTYPES:
            raise ValueError(f"dtype: expected {', '.join(DTYPES)}, got {dtype!r}")
        self.input_spec = shows(cameras)
        self.max_batch, self.memory_mb = max_batch, 0.0
        self.capabilities = Capabilities(nominal=usual(cameras))
        self._model, self._device, self._dtype = model, device, dtype
        self._download, self._threads = download, threads
        self._questions = questions_of(questions or {})
        self._network: Any = None
        self._processor: Any = None

    def load(self) -> None:
        """Raises `BackendError` and `FileNotFoundError`, in one line each."""
        torch = needs.package("torch", ENVIRONMENT)
        transformers = needs.package("transformers", ENVIRONMENT)
        needs.package("PIL", ENVIRONMENT)
        folder = needs.folder_of(self._model)
        if folder is not None:
            needs.check_memory(needs.weights_mb(folder), self._device)
        torch.set_num_threads(self._threads)
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        where = {"local_files_only": not self._download}
        try:
            self._processor = _processor(transformers, self._model, where)
            self._network, info = transformers.AutoModelForImageTextToText.from_pretrained(
                self._model,
                dtype=self._dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                **where,
            )
        except OSError as error:
            first = str(error).strip().splitlines()[0]
            words = f"{self._model}: {first}"
            if folder is None and not self._download:
                words += "; give a folder, or `download: true`"
            raise BackendError("bad_weights", words) from error
        except (RuntimeError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise BackendError("bad_weights", f"{self._model}: {first}") from error
        for name, had, expected in sorted(info["mismatched_keys"]):
            words = f"{name}: the weights have {tuple(had)}, the network {tuple(expected)}"
            raise BackendError("bad_weights", f"{self._model}: {words}")
        if missing := sorted(info["missing_keys"]):
            words = f"{self._model}: its weights lack {len(missing)} of the network's tensors, such as {missing[0]}"
            raise BackendError("bad_weights", words)
        try:
            self._network = self._network.eval().to(self._device)
        except torch.OutOfMemoryError as error:
            raise BackendError("no_memory", f"{self._model}: {str(error).splitlines()[0]}") from error
        self.memory_mb = sum(one.nbytes for one in self._network.parameters()) / 1e6
        self._torch = torch

    def warm_up(self) -> None:
        """One batch of one and one full one of each kind of question."""
        picture = np.zeros((*USUAL_PX, 3), np.uint8)
        images = dict.fromkeys(self.input_spec.images, picture)
        for size in sorted({1, self.max_batch}):
            for component in self._questions:
                self.infer([ModelInput(component, "warm up", images)] * size)

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One output per input, in order; `text` is the answer, or the likelihood of each verdict."""
        _check(self, batch)
        asked = [question_of(self._questions, one.component) for one in batch]
        outputs: list[ModelOutput | None] = [None] * len(batch)
        choices = [row for row, question in enumerate(asked) if question.choices]
        texts = [row for row, question in enumerate(asked) if not question.choices]
        if choices:
            told = self._likelihoods([batch[row] for row in choices], [asked[row] for row in choices])
            for row, likelihoods in zip(choices, told, strict=True):
                outputs[row] = asked[row].verdict(likelihoods)
        if texts:
            said = self._said([batch[row] for row in texts], [asked[row] for row in texts])
            for row, text in zip(texts, said, strict=True):
                outputs[row] = ModelOutput(text=text)
        return [output for output in outputs if output is not None]

    def close(self) -> None:
        self._network = self._processor = None

    def _prompts(self, batch: Sequence[ModelInput], asked: Sequence[Question]) -> list[str]:
        pictures = [{"type": "image"}] * len(self.input_spec.images)
        return [
            self._processor.apply_chat_template(
                [{"role": "user", "content": [*pictures, {"type": "text", "text": question.text(one)}]}],
                add_generation_prompt=True,
                tokenize=False,
            )
            for one, question in zip(batch, asked, strict=True)
        ]

    def _inputs(self, texts: Sequence[str], batch: Sequence[ModelInput], side: str) -> Any:
        from PIL import Image

        told = [[Image.fromarray(one.images[camera]) for camera in self.input_spec.images] for one in batch]
        pictures = {"images": told} if self.input_spec.images else {}
        made = self._processor(
            text=list(texts), **pictures, return_tensors="pt", padding=True, padding_side=side
        )
        kind = next(self._network.parameters()).dtype
        return {
            name: one.to(self._device, kind) if one.is_floating_point() else one.to(self._device)
            for name, one in made.items()
        }

    def _said(self, batch: Sequence[ModelInput], asked: Sequence[Question]) -> list[str]:
        inputs = self._inputs(self._prompts(batch, asked), batch, "left")
        length = inputs["input_ids"].shape[1]
        limit = max(question.max_new_tokens for question in asked)
        with self._torch.inference_mode():
            tokens = self._network.generate(**inputs, max_new_tokens=limit, do_sample=False)[:, length:]
        cut = [row[: question.max_new_tokens] for row, question in zip(tokens, asked, strict=True)]
        texts = self._processor.tokenizer.batch_decode(cut, skip_special_tokens=True)
        return [text.strip() for text in texts]

    def _likelihoods(
        self, batch: Sequence[ModelInput], asked: Sequence[Question]
    ) -> list[NDArray[np.float64]]:
        """Of each input's allowed words `(words,)`; their sum is what the model leaves to all of them together."""
        prompts = self._prompts(batch, asked)
        rows = [(index, word) for index, question in enumerate(asked) for word in question.words]
        whole = self._inputs(
            [prompts[index] + word for index, word in rows], [batch[index] for index, _ in rows], "left"
        )
        alone = self._inputs(prompts, batch, "left")
        ids, width = whole["input_ids"], whole["input_ids"].shape[1]
        begins = []  # of each row, its first token that is not the prompt's
        for row, (index, _) in enumerate(rows):
            mine = ids[row][whole["attention_mask"][row].bool()]
            asked_ids = alone["input_ids"][index][alone["attention_mask"][index].bool()]
            length = min(len(mine), len(asked_ids))
            differ = (mine[:length] != asked_ids[:length]).nonzero()
            begins.append(width - len(mine) + (int(differ[0]) if len(differ) else length))
        # Of every token of a prompt the likelihoods of the whole vocabulary would be gigabytes.
        kept = width - min(begins) + 1
        with self._torch.inference_mode():
            told = self._network(**whole, logits_to_keep=kept).logits[:, -kept:-1].float()
            shares = self._torch.log_softmax(told, dim=-1)
            picked = shares.gather(-1, ids[:, 1 - kept :, None])[..., 0].cpu().numpy()
        found: list[list[float]] = [[] for _ in batch]
        for row, (index, _) in enumerate(rows):
            found[index].append(float(picked[row, begins[row] - width :].sum()))
        return [np.exp(np.array(one)) for one in found]


def _check(backend: TransformersVlmBackend, batch: Sequence[ModelInput]) -> None:
    """As `check_batch`, for pictures of any size."""
    cameras = backend.input_spec.images
    for number, one in enumerate(batch):
        for name in cameras:
            if name not in one.images:
                raise ValueError(f"input {number}: image {name!r} is missing; there are {sorted(one.images)}")
    check_batch(InputSpec(), batch, backend.max_batch)


def _processor(transformers: Any, model: str, where: Mapping[str, Any]) -> Any:
    """The model's processor; without torchvision one that takes pictures only, no video."""
    try:
        return transformers.AutoProcessor.from_pretrained(model, **where)
    except ImportError as error:
        if "torchvision" not in str(error).lower():
            raise BackendError("not_importable", str(error).strip().splitlines()[0]) from error
    mapping = needs.package("transformers.models.auto.processing_auto", ENVIRONMENT).PROCESSOR_MAPPING
    kind = mapping[type(transformers.AutoConfig.from_pretrained(model, **where))]
    tokenizer = transformers.AutoTokenizer.from_pretrained(model, **where)
    pictures = transformers.AutoImageProcessor.from_pretrained(model, **where)

    class NoVideo:
        """In place of what needs torchvision."""

        model_input_names: Sequence[str] = ()

    still = type(
        kind.__name__, (kind,), {"check_argument_for_proper_class": lambda self, name, arg: type(arg)}
    )
    return still(
        image_processor=pictures,
        tokenizer=tokenizer,
        video_processor=NoVideo(),
        chat_template=tokenizer.chat_template,
    )
