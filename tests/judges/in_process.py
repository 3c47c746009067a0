"""The expert as vla-eval serves a model of its own: in the process of its server, one observation at a time."""

from __future__ import annotations

from typing import Any

from vla_eval.model_servers.predict import PredictModelServer
from vla_eval.model_servers.serve import run_server

from tests.judges.expert import act, takes


class InProcess(PredictModelServer):
    def predict(self, obs: Any, ctx: Any) -> Any:
        takes(1)
        return {"actions": act(obs["task_description"], obs["state"])}

    def get_action_spec(self) -> dict[str, Any]:
        return {}

    def get_observation_spec(self) -> dict[str, Any]:
        return {}


if __name__ == "__main__":
    run_server(InProcess)
