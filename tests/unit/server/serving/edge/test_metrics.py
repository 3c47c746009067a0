"""What an engine has done is shown by worker, for as long as the worker lives; workers are counted by replica."""

from __future__ import annotations

import socket
import threading
import urllib.request
from contextlib import ExitStack, suppress

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from rosa_contract.wire.messages import HealthReport
from rosa_server.serving.edge.metrics import LATENCY_BUCKETS_S, MAX_READERS, Metrics, MetricsServer
from rosa_server.serving.edge.tallies import Spreads, Tallies
from tests.unit.server.serving.core.stage import Stage


def shown(metrics: Metrics, worker: str) -> set[str]:
    """The series of one worker."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    return {line for line in lines if f'worker="{worker}"' in line}


def test_what_a_lost_workers_engine_did_is_shown_no_more() -> None:
    metrics = Metrics()
    metrics.engine("m/0.1", {"prefills": 3, "held_bytes": 10})
    metrics.engine("m/1.1", {"prefills": 4})
    assert len(shown(metrics, "m/0.1")) == 2
    metrics.worker_ended("m/0.1", asked=False)
    assert shown(metrics, "m/0.1") == set()
    assert shown(metrics, "m/1.1") == {'rosa_prefills{worker="m/1.1"} 4.0'}
    metrics.worker_ended("without_an_engine/0.1", asked=True)


def test_servers_that_share_a_queue_have_a_number_of_workers_each() -> None:
    metrics = Metrics()
    metrics.state(HealthReport(True, {}, {"policies": 3}, []), {"gpu0": 1, "gpu1": 0})
    lines = generate_latest(metrics.registry).decode().splitlines()
    assert {line for line in lines if line.startswith(("rosa_workers{", "rosa_queue_depth{"))} == {
        'rosa_queue_depth{replica="policies"} 3.0',
        'rosa_workers{replica="gpu0"} 1.0',
        'rosa_workers{replica="gpu1"} 0.0',
    }


def test_what_a_frontend_refuses_after_it_was_started_anew_counts_on() -> None:
    metrics = Metrics()
    for refused in (5, 2, 6):  # the second process counts from zero
        metrics.frontend("openpi", 1, {"too_large": refused})
    labels = {"frontend": "openpi", "cause": "too_large"}
    assert metrics.registry.get_sample_value("rosa_frontend_refused_total", labels) == 5 + 6


def test_counts_that_no_metric_stands_for_are_not_kept() -> None:
    metrics = Metrics()
    metrics.engine("m/0.1", {"whatever": 3})
    assert shown(metrics, "m/0.1") == set()


def test_the_order_of_the_queue_and_what_it_goes_by_are_shown() -> None:
    metrics = Metrics()
    metrics.order("remaining_work", 0.25, 0.04, 30)
    lines = generate_latest(metrics.registry).decode().splitlines()
    names = ("rosa_queue_order{", "rosa_fleet_closed ", "rosa_age_weight ", "rosa_tasks_learned ")
    assert [line for line in lines if line.startswith(names)] == [
        'rosa_queue_order{order="remaining_work"} 1.0',
        "rosa_fleet_closed 0.25",
        "rosa_age_weight 0.04",
        "rosa_tasks_learned 30.0",
    ]


def test_what_robots_make_up_makes_one_series() -> None:
    stage, metrics = Stage().open("r1"), Metrics()
    for number in range(50):
        stage.send("r1", number, f"made_up_{number}")
    assert len(stage.answers) == 50
    for answer in stage.answers:
        metrics.answered(answer)
    text = generate_latest(metrics.registry).decode()
    assert "made_up" not in text
    assert 'rosa_requests_total{component="unknown",status="invalid"} 50.0' in text


def test_a_histogram_is_shown_as_prometheus_clients_own_shows_it() -> None:
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    plain = Histogram("seconds", "Times", ["model"], buckets=LATENCY_BUCKETS_S, registry=theirs)
    spreads = Spreads("seconds", "Times", "model", LATENCY_BUCKETS_S)
    ours.register(spreads)
    for model, value in (("a", 0.0), ("b", 0.001), ("a", 0.00100001), ("a", 0.5), ("a", 10.0), ("b", 11.0)):
        plain.labels(model).observe(value)
        spreads.observe(model, value)
    expected = [line for line in generate_latest(theirs).decode().splitlines() if "_created" not in line]
    assert generate_latest(ours).decode().splitlines() == expected


def test_a_counter_counts_each_pair_of_labels() -> None:
    registry, tallies = CollectorRegistry(), Tallies("calls", "Calls", ["component", "status"])
    registry.register(tallies)
    assert generate_latest(registry).decode().splitlines() == [
        "# HELP calls_total Calls",
        "# TYPE calls_total counter",
    ]
    for labels in (("system1", "ok"), ("system1", "ok"), ("system1", "failed")):
        tallies.inc(labels)
    assert generate_latest(registry).decode().splitlines()[2:] == [
        'calls_total{component="system1",status="ok"} 2.0',
        'calls_total{component="system1",status="failed"} 1.0',
    ]


def test_readers_that_send_a_byte_now_and_then_keep_nobody_out() -> None:
    server, over = MetricsServer(Metrics(), 0), threading.Event()

    def drip(connections: list[socket.socket]) -> None:
        while not over.wait(0.05):
            for one in connections:
                with suppress(OSError):
                    one.send(b"x")

    with ExitStack() as stack:
        stack.callback(server.close)
        stack.callback(over.set)
        address = ("127.0.0.1", server.port)
        slow = [stack.enter_context(socket.create_connection(address, 60)) for _ in range(MAX_READERS)]
        for one in slow:
            one.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        dripping = threading.Thread(target=drip, args=[slow], daemon=True)
        dripping.start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10) as page:
            assert page.status == 200
        for one in slow:
            with suppress(ConnectionResetError):  # what it sent last is unread
                assert one.recv(1) == b"", "its time is over"
