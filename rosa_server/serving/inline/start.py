"""Loads the models of a factory file that run in the gateway's own thread (`models.NAME.inline`)."""

from __future__ import annotations

from collections.abc import Collection

from rosa_contract.config.factory import Factory
from rosa_contract.errors import ContractError
from rosa_server.models.adapters.resolving import resolve
from rosa_server.models.backend import capabilities_of
from rosa_server.models.registry import BackendError, with_engine
from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.base import log
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.inline.desk import LIFE, InlineDesk
from rosa_server.serving.inline.worker import HangAlarm, InlineWorker, in_main_thread
from rosa_server.serving.worker.answers import short
from rosa_server.serving.worker.loading import loaded


def inline_desk(factory: Factory, placement: Placement, changed: Collection[str]) -> InlineDesk | None:
    """The models that run here; None without any. `changed`: workers that people took out, or gave other weights."""
    watch: HangAlarm | None = None
    workers = []
    for replica in placement.replicas.values():
        name = f"{replica.id}/0"
        model = factory.models.get(replica.model)
        if model is None or not model.inline:
            continue
        why = _obstacle(replica)
        if name in changed:
            why = "its worker was drained, or its weights were changed, while an earlier server ran"
        if why:
            log.warning("inline_off", model=replica.model, replica=replica.id, reason=why)
            continue
        spec = WorkerSpec(
            name + LIFE,
            replica.model,
            model.backend,
            "",
            model.max_batch,
            with_engine(model.options, replica.engine),
            dict(model.sha256),
            adapter=resolve(model.adapter).to_data() if model.adapter else {},
            epoch=placement.epoch,
        )
        watch = watch or HangAlarm()
        try:
            backend = loaded(spec)
            if not capabilities_of(backend).inline:
                raise BackendError("bad_capabilities", f"backend {model.backend!r} does not declare `inline`")
        except (ContractError, OSError) as error:
            log.error("inline_off", model=replica.model, replica=replica.id, reason=str(error))
        except Exception as error:  # it may be anybody's code
            log.error("inline_off", model=replica.model, replica=replica.id, reason=short(error))
        else:
            workers.append(InlineWorker(spec, backend, watch))
    return InlineDesk(workers) if workers else None


def _obstacle(replica: Replica) -> str:
    """Why the model of a replica cannot run here; empty where it can."""
    if not in_main_thread():
        return "this server does not run in its process's main thread"
    if replica.workers != 1 or replica.standby or replica.pool or replica.link_ms or replica.node:
        return "its replica is one of several, or elsewhere"
    return "it takes turns with other models on one server" if replica.takes_turns else ""
