"""`rosa/panda-vla`: one vision-language-action model for all components of a Panda with two 96 x 96 cameras.

A component's role says what it is answered: `system1` a chunk of actions for its prompt, `system2` the next subtask in
words, `safety` and `monitor` a verdict. A batch may mix them. How requests share what is seen is its engine:

- `isolated`: batches, one after another; what is equal within a batch is seen once.
- `kv_sharing`: OxyGen. Requests about one observation share its prefix whenever they come, actions run before words,
  and words of all robots advance together, a few tokens at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rosa_server.engines.kv_sharing.cache import Cache
from rosa_server.engines.kv_sharing.passes import Words
from rosa_server.models.backend import Capabilities, ModelInput, ModelOutput
from rosa_server.models.panda.common import Look, PandaBackend
from rosa_server.models.panda.flow_policy import STEP_S
from rosa_server.models.vla import judging
from rosa_server.models.vla.config import SHIPPED
from rosa_server.models.vla.network import VlaNetwork
from rosa_server.models.vla.reaching import joints_of
from rosa_server.models.vla.sharing import Chunk, Questions
from rosa_server.models.vla.speech import ROLES, VERDICTS, Speech, ask, plan, shares

WEIGHTS_FILE = "panda_vla.safetensors"
ENGINES = ("isolated", "kv_sharing")
AT_ONCE = 32  # calls that the sharing engine takes at a time
# "safe" is said when at least so sure. Higher ones found few more hands for many more false alarms, which do not end by
# themselves while the arm holds (docs/log.md); chosen on looks that no evaluation counts.
SAFE_CERTAINTY = 0.5
MIN_CONTRAST = 5.0  # of a picture's bytes, standard deviation; the darkest that was trained on has 8
IN_THE_DARK = {"safety": "unsafe", "monitor": "ongoing"}
VERDICT_CERTAINTY = 0.6  # "done" and "failed" as well: ongoing when in doubt
Likelihoods = NDArray[np.floating]
Answer = ModelOutput | Likelihoods


class VlaBackend(PandaBackend[VlaNetwork]):
    """Answers by role: `actions` `(16, 8)` with `step_s`, a `text`, or a `verdict`."""

    memory_mb = 120.0

    def __init__(
        self,
        weights: str = "",
        roles: Mapping[str, str] | None = None,
        safe_certainty: float = SAFE_CERTAINTY,
        verdict_certainty: float = VERDICT_CERTAINTY,
        seed: int = 0,
        flow_steps: int = 8,
        device: str = "cpu",
        engine: str = "isolated",
        memory_mb: float = 32.0,
        slice_tokens: int = 5,
    ) -> None:
        """`weights`: a safetensors path, default the shipped ones; its words lie beside it (`NAME.words.json`).

        `roles`: component name -> role, for components that are not named as their role. Of `kv_sharing`: `memory_mb`
        for keys and values beside the weights, and `slice_tokens` of each answer before an action may come between.
        """
        if engine not in ENGINES:
            raise ValueError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
        if slice_tokens < 1 or memory_mb <= 0:
            raise ValueError(
                f"expected slice_tokens and memory_mb above 0, got {slice_tokens} and {memory_mb}"
            )
        for name, certainty in (
            ("safe_certainty", safe_certainty),
            ("verdict_certainty", verdict_certainty),
        ):
            if not 0.5 <= certainty < 1.0:
                raise ValueError(f"{name}: expected a number in [0.5, 1), got {certainty}")
        for component, role in (roles or {}).items():
            if role not in ROLES:
                raise ValueError(f"roles.{component}: expected one of {', '.join(ROLES)}, got {role!r}")
        super().__init__(lambda: VlaNetwork(SHIPPED), weights, WEIGHTS_FILE, device)
        self._roles = {role: role for role in ROLES} | dict(roles or {})
        self._safe_certainty, self._verdict_certainty = safe_certainty, verdict_certainty
        self._seed, self._flow_steps = seed, flow_steps
        self._speech: Speech | None = None
        self._kv_memory_mb, self._slice_tokens = memory_mb, slice_tokens
        self._questions: Questions | None = None
        shares = engine == "kv_sharing"
        at_once = AT_ONCE if shares else 1
        self.capabilities = Capabilities(at_once, shares, engine=engine, counts=self.counts)
        if shares:
            self.memory_mb += memory_mb

    def load(self) -> None:
        """Read the weights and the words, and start the engine."""
        super().load()
        self._speech = Speech.read(self._path.with_suffix(".words.json"))
        if self.capabilities.shares:
            memory = (self._kv_memory_mb, self._slice_tokens)
            self._questions = Questions(self.network, self._speech, *memory, self._flow_steps)

    def counts(self) -> dict[str, int]:
        """What the engine has shared since it started; nothing without one."""
        return self._questions.counts() if self._questions is not None else {}

    @property
    def speech(self) -> Speech:
        """Raises `RuntimeError` before `load()`."""
        if self._speech is None:
            raise RuntimeError("VlaBackend: call load() before infer()")
        return self._speech

    def role_of(self, component: str) -> str:
        """What a component is answered. Raises `ValueError` for one whose role is not known."""
        if component not in self._roles:
            known = ", ".join(ROLES)
            raise ValueError(f"component {component!r} has no role: give it one of {known} in options.roles")
        return self._roles[component]

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One answer per input: one pass over the pictures, one over all prompts, then each role's own decoding.

        A monitor whose prompt has further lines is asked about each of them as well, and its `text` says which are
        done (`judging.py`). Of a blank picture nothing good is said: the workcell is unsafe, the task ongoing; `text`
        says why.
        """
        look = self.look(batch)
        roles = [self.role_of(one.component) for one in batch]
        tasks = [
            judging.Task.of(one.prompt) if role == "monitor" else judging.Task(one.prompt)
            for role, one in zip(roles, batch, strict=True)
        ]
        asked = [(row, prompt) for row, task in enumerate(tasks) for prompt in task.questions]
        rows = [row for row, _ in asked]
        batched = [replace(batch[row], prompt=prompt) for row, prompt in asked]
        said = self._infer(batched, look.of(rows), [roles[row] for row in rows])
        answers = []
        for row, (role, one) in enumerate(zip(roles, batch, strict=True)):
            own = [answer for answer, of in zip(said, rows, strict=True) if of == row]
            likelihoods = [answer for answer in own if not isinstance(answer, ModelOutput)]
            meant = self._verdict(role, likelihoods, tasks[row]) if role in VERDICTS else own[0]
            assert isinstance(meant, ModelOutput)
            answers.append(_restrained(role, one, meant))
        return answers

    def likelihoods(self, batch: Sequence[ModelInput]) -> list[Likelihoods]:
        """Of the verdicts of each input `(verdicts,)`, which asks as safety or as a monitor; a prompt is one question.

        Raises `ValueError` for an input of another role.
        """
        roles = [self.role_of(one.component) for one in batch]
        if not set(roles) <= set(VERDICTS):
            raise ValueError(f"likelihoods: expected {' or '.join(VERDICTS)}, got {', '.join(roles)}")
        answers = self._infer(batch, self.look(batch), roles)
        return [one for one in answers if not isinstance(one, ModelOutput)]

    def _infer(self, batch: Sequence[ModelInput], look: Look, roles: Sequence[str]) -> list[Answer]:
        """An answer to each input, or the likelihoods of its verdicts `(verdicts,)`."""
        questions = [self.speech.question(role, one.prompt) for role, one in zip(roles, batch, strict=True)]
        answers: list[Answer] = [ModelOutput()] * len(batch)
        if self._questions is not None:
            said = self._questions.answers(batch, look, roles, questions, self._noise(1))
            return [self._meant(role, answer) for role, answer in zip(roles, said, strict=True)]
        with torch.inference_mode():
            last, cache = ask(self.network, self._observed(batch, look), questions)
            for role in dict.fromkeys(roles):
                rows = [row for row, one in enumerate(roles) if one == role]
                for row, answer in zip(
                    rows, self._answers(role, rows, last[rows], cache.take(rows), look), strict=True
                ):
                    answers[row] = answer
        return answers

    def warm_up(self) -> None:
        """One pass of one input, and of a full batch of each role; an engine that shares is asked all roles at once."""
        blank = {name: np.zeros((*size, 3), np.uint8) for name, size in self.input_spec.images.items()}
        state = {name: np.zeros(length, np.float32) for name, length in self.input_spec.state.items()}
        components = [next(name for name, known in self._roles.items() if known == role) for role in ROLES]
        inputs = [ModelInput(name, images=blank, state=state, observation="warm-up") for name in components]
        if self._questions is not None:
            self.infer(inputs)
            self.infer(inputs)
            self._questions.restart_counts()
            return
        for one in inputs:
            for size in (1, self.max_batch):
                self.infer([one] * size)

    def close(self) -> None:
        """End the engine, and forget the network and its words."""
        if self._questions is not None:
            self._questions.close()
            self._questions = None
        self._speech = None
        super().close()

    def _observed(self, batch: Sequence[ModelInput], look: Look) -> Cache:
        """A row for each input; equal observations are seen once."""
        first: dict[tuple[bytes, ...], int] = {}
        rows: list[int] = []
        for one in batch:
            seen = [one.images[name] for name in self.input_spec.images]
            seen += [one.state[name] for name in self.input_spec.state]
            rows.append(first.setdefault(tuple(value.tobytes() for value in seen), len(rows)))
        different = sorted(set(rows))
        cache = self.network.prefill(
            self.network.observe([one[different] for one in look.pictures], look.told[different])
        )
        return cache if len(different) == len(rows) else cache.take([different.index(row) for row in rows])

    def _answers(
        self, role: str, rows: list[int], last: Tensor, cache: Cache, look: Look
    ) -> Sequence[Answer]:
        if role in VERDICTS:
            return list(shares(self.network, last, self.speech, role).cpu().numpy())
        if role == "system2":
            return [ModelOutput(text=text) for text in plan(self.network, last, cache, self.speech)]
        return self._act(rows, cache, look)

    def _verdict(self, role: str, likelihoods: Sequence[Likelihoods], task: judging.Task) -> ModelOutput:
        """Of a role's verdicts: to its question, and to those about the steps of a task."""
        if role == "safety":
            safe, unsafe = VERDICTS[role]
            return ModelOutput(verdict=safe if likelihoods[0][0] >= self._safe_certainty else unsafe)
        verdict, text = task.judged(likelihoods, self._verdict_certainty)
        return ModelOutput(verdict=verdict, text=text)

    def _meant(self, role: str, answer: object) -> Answer:
        """What the engine's answer means to its robot."""
        if isinstance(answer, Chunk):
            return _chunk(answer.actions, answer.updates.cpu().numpy())
        assert isinstance(answer, Words)
        if role in VERDICTS:
            return np.array(answer.first)
        return ModelOutput(text=self.speech.tokenizer.decode(list(answer.tokens)))

    def _noise(self, count: int) -> Tensor:
        """`(count, H, A)`: the same for every request, so that an answer does not depend on what else is asked."""
        config = self.network.config
        noise = torch.randn(
            1, config.horizon, config.action_dim, generator=torch.Generator().manual_seed(self._seed)
        )
        return noise.expand(count, -1, -1).to(self._device)

    def _act(self, rows: list[int], cache: Cache, look: Look) -> list[ModelOutput]:
        chunk, updates = self.network.refine(cache, self._noise(len(rows)), self._flow_steps)
        actions = joints_of(chunk, look.tool_m[rows], look.q_rad[rows])
        return [_chunk(one, steps) for one, steps in zip(actions, updates.cpu().numpy(), strict=True)]


def _chunk(actions: NDArray[np.float32], updates: NDArray[np.floating]) -> ModelOutput:
    return ModelOutput({"actions": actions, "step_s": np.array([STEP_S], np.float32)}, updates=updates)


def _restrained(role: str, seen: ModelInput, answer: ModelOutput) -> ModelOutput:
    """A network answers of a covered lens as well, and was never shown one."""
    if role not in VERDICTS:
        return answer
    for name, picture in seen.images.items():
        contrast = float(picture.std())
        if contrast < MIN_CONTRAST:
            why = f"contrast {contrast:.1f}, expected at least {MIN_CONTRAST:g}"
            return ModelOutput(
                verdict=IN_THE_DARK[role], text=f"out_of_range: blank: the {name} picture has {why}"
            )
    return answer
