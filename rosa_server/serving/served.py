"""What `rosa serve` would refuse of a factory file. `rosa check` says the same, since it asks here too."""

from __future__ import annotations

import os
from dataclasses import replace

from rosa_contract.config.factory import Factory
from rosa_contract.config.models import Model
from rosa_contract.config.tasks import SYSTEM1
from rosa_contract.endpoint import endpoint_problem
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_contract.wording import nearest, shown
from rosa_server.models import horizon, registry
from rosa_server.models.adapters.checks import adapter_problems
from rosa_server.models.adapters.resolving import resolve
from rosa_server.models.backend import capabilities_of
from rosa_server.models.options import option_problems
from rosa_server.serving.edge.access import AccessError, KeyRing, check_bind


def serving_problems(factory: Factory, bind: str = "", insecure: bool = False) -> list[ConfigProblem]:
    """Every mistake with its dotted path; `bind` and `insecure` as for `rosa serve`."""
    problems: list[ConfigProblem] = []
    for name in sorted(models_used(factory)):
        if name in factory.models:
            found = model_problems(factory.models[name])
            problems += [replace(one, path=f"models.{name}.{one.path}") for one in found]
        elif hint := nearest(name, factory.models):
            words = f"no model {shown(name)} in `models`{hint}"
            problems += [ConfigProblem(path, "unknown_name", words) for path in _uses(factory, name)]
        else:
            known = ", ".join(registry.BACKENDS)
            entry = f"models: {{{name}: {{backend: NAME}}}}"
            words = f"is missing; add `{entry}` with one of {known}, so that it can be served"
            problems.append(ConfigProblem(f"models.{name}", "missing", words))
    problems += horizon_problems(factory) + frontend_problems(factory, insecure)
    return problems + reach_problems(factory, bind, insecure)


def check_served(
    factory: Factory, source: str, bind: str = "", insecure: bool = False, planned: bool = False
) -> None:
    """Raise `ConfigError` with all `serving_problems`. `planned`: a schedule says which model runs on which server."""
    problems = serving_problems(factory, bind, insecure)
    if not planned and (crowded := crowded_servers(factory)):
        problems.append(ConfigProblem("server_cluster.num_servers", "conflict", crowded))
    if problems:
        raise ConfigError(source, problems)


def crowded_servers(factory: Factory) -> str:
    """Why the servers do not suffice for a worker each; empty where they do."""
    used = sorted(models_used(factory))
    workers = sum(factory.models[name].workers if name in factory.models else 1 for name in used)
    servers = factory.server_cluster.num_servers
    if workers <= servers:
        return ""
    return (
        f"{servers} {'server' if servers == 1 else 'servers'} cannot host {workers} workers, one each"
        f" ({', '.join(used)}); `rosa plan` makes a schedule in which models of one server take turns"
    )


def models_used(factory: Factory) -> set[str]:
    """The models of all tasks."""
    return {component.model for task in factory.tasks.values() for component in task.components.values()}


def _uses(factory: Factory, model: str) -> list[str]:
    """Where the file names this model."""
    return [
        f"{task}.components.{name}.model"
        for task, described in factory.tasks.items()
        for name, component in described.components.items()
        if component.model == model
    ]


def model_problems(model: Model) -> list[ConfigProblem]:
    """Why no worker can run this entry of `models`, as far as that shows before one is started."""
    problems = _python_problems(model) if model.python else option_problems(model.backend, model.options)
    problems += adapter_problems_of(model) if model.adapter is not None else []
    return problems + (inline_problems(model) if model.inline and not problems else [])


def inline_problems(model: Model) -> list[ConfigProblem]:
    """Why this entry of `models` cannot run in the gateway's thread. Makes its backend, and loads nothing."""
    others = {"python": bool(model.python), "workers": model.workers > 1, "cloud": model.cloud.workers > 0}
    conflicts = [name for name, there in others.items() if there]
    if conflicts:
        words = f"expected one worker here, with the server's own Python; see {', '.join(conflicts)}"
        return [ConfigProblem("inline", "conflict", words)]
    try:
        declared = capabilities_of(registry.create(model.backend, **registry.with_engine(model.options)))
    except (registry.BackendError, TypeError) as error:
        return [ConfigProblem("backend", "invalid", str(error))]
    if not declared.inline:
        words = f"backend {model.backend!r} does not declare that it may run in the gateway's thread"
        return [ConfigProblem("inline", "conflict", f"{words} (docs/add_a_model.md)")]
    return []


def _python_problems(model: Model) -> list[ConfigProblem]:
    """A backend of its own may be found in the model's own environment alone, so its worker says what is wrong."""
    problems = [] if ":" in model.backend else option_problems(model.backend, model.options)
    if not os.access(model.python, os.X_OK) or os.path.isdir(model.python):
        words = f"there is no program {model.python}; `rosa env NAME` makes an environment and says its path"
        problems.append(ConfigProblem("python", "unreadable", words))
    return problems


def adapter_problems_of(model: Model) -> list[ConfigProblem]:
    """What is wrong with the adapter of this entry, as far as that shows without its model."""
    assert model.adapter is not None
    try:
        resolved = resolve(model.adapter)
    except ConfigError as error:
        return [replace(one, path=f"adapter.{one.path}") for one in error.problems]
    problems = adapter_problems(resolved)
    past = [key for key, one in resolved.spec.cameras.items() if one.history > 1]
    if past and model.workers > 1:
        words = (
            f"expected workers: 1, got {model.workers}: each keeps only the pictures that it was given itself"
        )
        problems.append(ConfigProblem(f"cameras.{past[0]}.history", "conflict", words))
    return [replace(one, path=f"adapter.{one.path}") for one in problems]


def reach_problems(factory: Factory, bind: str, insecure: bool) -> list[ConfigProblem]:
    """What is wrong with the endpoint for robots and with its keys."""
    settings = factory.gateway if not bind else replace(factory.gateway, bind=bind)
    problem = endpoint_problem(settings.bind, binds=True)
    if problem:
        return [ConfigProblem("--bind" if bind else "gateway.bind", "out_of_range", problem)]
    try:
        check_bind(settings.bind, settings.curve_keys, insecure)
        if settings.curve_keys:
            KeyRing(settings.curve_keys)
    except AccessError as error:
        path, _, words = str(error).partition(": ")
        return [ConfigProblem(path, "invalid", words)]
    return []


def frontend_problems(factory: Factory, insecure: bool) -> list[ConfigProblem]:
    """Frontends that strangers could reach, or that want the same port. Their protocols know no encryption but TLS."""
    problems: list[ConfigProblem] = []
    ports: dict[tuple[str, int], str] = {}
    for name, one in factory.frontends.items():
        where = f"frontends.{name}.bind"
        other = ports.setdefault(one.address, name)
        if other != name and one.address[1]:
            words = f"{one.address[0]}:{one.address[1]} is that of frontends.{other}; give each its own port"
            problems.append(ConfigProblem(where, "conflict", words))
        if one.on_loopback or insecure:
            continue
        if not factory.gateway.curve_keys:
            words = (
                "can be reached from other machines, and without gateway.curve_keys a client needs no API key"
            )
        elif not one.tls_certificate:
            words = "can be reached from other machines, and without TLS an API key can be read on its way"
        else:
            continue
        remedy = "bind to loopback and use a tunnel, such as `ssh -L`, or insist with --insecure"
        problems.append(ConfigProblem(where, "invalid", f"{words}; {remedy}"))
    return problems


def horizon_problems(factory: Factory) -> list[ConfigProblem]:
    """Horizon policies that no worker knows. A backend of your own (`module:Class`) may register its own policies."""
    problems = []
    for name, task in factory.tasks.items():
        spec = task.pipeline.horizon
        model = factory.models.get(task.components[SYSTEM1].model)
        own = model is not None and ":" in model.backend
        if spec is not None and not own and (words := horizon.unknown(spec.policy)):
            problems.append(ConfigProblem(f"{name}.pipeline.horizon.policy", "unknown_name", words))
    return problems
