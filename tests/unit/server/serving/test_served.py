"""What `rosa serve` refuses of a factory file before it starts anything."""

from __future__ import annotations

import pytest

from rosa_contract.config.factory import parse_factory
from rosa_contract.errors import ConfigError
from rosa_server.serving.served import check_served

TWO_MODELS = """
server_cluster: {num_servers: 1}
robot_fleet: [{task: pick, num_robots: 1}]
models: {policy: {backend: emulated}, guard: {backend: emulated}}
pick:
  pipeline: {action_period_ms: 200}
  components:
    system1: {model: policy, slo_ms: 200}
    monitor: {model: guard, slo_ms: 2000, freq_hz: 0.5}
"""


def test_more_models_than_servers_need_a_schedule_in_which_they_take_turns() -> None:
    factory = parse_factory(TWO_MODELS)
    with pytest.raises(ConfigError) as caught:
        check_served(factory, "lab.yaml")
    (problem,) = caught.value.problems
    assert (problem.path, problem.cause) == ("server_cluster.num_servers", "conflict")
    check_served(factory, "lab.yaml", planned=True)


def test_a_server_for_each_model_needs_none() -> None:
    check_served(parse_factory(TWO_MODELS.replace("num_servers: 1", "num_servers: 2")), "lab.yaml")


INLINE = """
server_cluster: {num_servers: 1}
robot_fleet: [{task: pick, num_robots: 1}]
models: {policy: {inline: true, MODEL}}
pick:
  pipeline: {action_period_ms: 200}
  components: {system1: {model: policy, slo_ms: 200}}
"""


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("backend: emulated", "models.policy.inline"),
        ('backend: "null", workers: 2', "models.policy.inline"),
        ('backend: "null", cloud: {workers: 1}', "models.policy.inline"),
        ("backend: replay, options: {recording: /}", "models.policy.inline"),
        ('backend: "null", options: {max_batch: 1, imags: {}}', "models.policy.options.imags"),
    ],
)
def test_a_model_runs_in_the_gateways_thread_only_where_its_backend_declares_that_it_may(
    model: str, path: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_served(parse_factory(INLINE.replace("MODEL", model)), "lab.yaml")
    assert path in [problem.path for problem in caught.value.problems]


def test_one_that_declares_it_may() -> None:
    check_served(parse_factory(INLINE.replace("MODEL", 'backend: "null"')), "lab.yaml")
