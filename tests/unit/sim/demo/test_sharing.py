"""What sharing saved is read from the server's metrics."""

from __future__ import annotations

import socket

from rosa_server.serving.edge.metrics import Metrics, MetricsServer
from rosa_sim.demo import sharing
from rosa_sim.demo.sharing import Sharing


def test_it_sums_the_workers_as_the_gateway_counts_them() -> None:
    metrics = Metrics()
    metrics.engine("w0", {"prefills": 30, "prefills_saved": 10})
    metrics.engine("w1", {"prefills": 10, "prefills_saved": 30})
    page = MetricsServer(metrics, 0)
    try:
        assert sharing.read(page.port) == Sharing(prefills=40, saved=40)
    finally:
        page.close()


def test_a_gateway_whose_workers_share_nothing_or_that_is_not_there_says_nothing() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert sharing.read(free.getsockname()[1]) is None
    assert sharing.read(0) is None
    assert sharing.of_metrics("# HELP rosa_prefills none\n# TYPE rosa_prefills gauge\n") is None


def test_the_line_for_people_has_the_share() -> None:
    assert "80 questions of all components, 40 passes" in Sharing(40, 40).line()
    assert "40 questions (50 %) were about pictures" in Sharing(40, 40).line()
    assert list(Sharing(30, 10).row().values()) == [40, 30, 10, 0.25]
    assert Sharing(40, 40).plain() == {"prefills": 40, "saved": 40, "share": 0.5}
    assert Sharing(0, 0).share == 0.0
