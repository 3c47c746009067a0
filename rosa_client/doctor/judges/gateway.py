"""The way to the server: whether it answers, how fast, whether its models are up, and whether it takes our key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rosa_client.doctor.judges.finding import FAIL, WARN, Finding, fine, skipped

# Of the tightest deadline. The rest is for the queue and the model.
WARN_SHARE, FAIL_SHARE = 0.1, 0.5
WARN_MS = 20.0  # without a factory file there is no deadline to compare with


@dataclass(frozen=True)
class GatewayFact:
    """What came back. `cause` and `reason` say why nothing did; both empty: it answered."""

    endpoint: str
    cause: str = ""
    reason: str = ""
    round_trips_ms: Sequence[float] = ()
    lost: int = 0  # questions without an answer
    ready: bool = False  # every model has a warm worker
    workers: Mapping[str, str] | None = None  # warm worker -> its model and state
    connected: bool = False  # the robot is one of those that the server has welcomed
    # The answer to a hello for a task that no server has: unknown_task means that name and key are accepted.
    hello_cause: str = ""
    hello_reason: str = ""


@dataclass(frozen=True)
class KeysFact:
    """The key folder: whether one is named, and what is wrong with it."""

    folder: str = ""
    problem: str = ""  # empty: both files are there, well-formed, and the secret is the owner's alone
    loopback: bool = False  # the gateway is on this machine


def judge_gateway(fact: GatewayFact, tightest: tuple[str, float] | None) -> list[Finding]:
    """`tightest`: the call with the shortest deadline, such as ("pick.system1", 500.0) ms; None: not known."""
    if fact.cause:
        return [Finding("gateway", FAIL, fact.cause, fact.reason, _remedy(fact.cause))]
    welcomed = ", and this robot is connected to it" if fact.connected else ""
    found = [fine("gateway", f"{fact.endpoint} answers{welcomed}")]
    return [*found, _round_trip(fact, tightest), _models(fact)]


def _remedy(cause: str) -> str:
    return {
        "no_answer": "start `rosa serve` there; check address, port and firewall",
        "bad_endpoint": "expected --gateway tcp://HOST:PORT",
        "mismatch": "give --keys, or none, as the server does",
        "refused": "copy robots/NAME.key into the server's key folder",
        "hung_up": "copy server.key from the server again",
    }.get(cause, "compare the versions of both sides")


def _round_trip(fact: GatewayFact, tightest: tuple[str, float] | None) -> Finding:
    check = "round_trip"
    times = sorted(fact.round_trips_ms)
    if fact.lost or not times:
        asked = len(times) + fact.lost
        words = f"{fact.lost} of {asked} questions had no answer within a second"
        return Finding(check, FAIL, "lost_messages", words, "use a cable; look for loss with `ping`")
    median, slowest = times[len(times) // 2], times[min(len(times) - 1, int(0.99 * len(times)))]
    words = f"median {median:.1f} ms, p99 {slowest:.1f} ms, jitter {slowest - times[0]:.1f} ms"
    if tightest is None:
        if slowest <= WARN_MS:
            return fine(check, f"{words}; with --config it is compared with the deadlines")
        return Finding(check, WARN, "slow", words, "use a cable and a switch of your own; --config says more")
    call, deadline_ms = tightest
    share = slowest / deadline_ms
    words += f": {100 * share:.0f} % of the {deadline_ms:g} ms of {call}"
    if share <= WARN_SHARE:
        return fine(check, words)
    level = FAIL if share > FAIL_SHARE else WARN
    return Finding(check, level, "slow", words, "use a cable and a switch of your own, or a longer slo_ms")


def _models(fact: GatewayFact) -> Finding:
    workers = fact.workers or {}
    if fact.ready:
        return fine("models", f"all are loaded, on {len(workers)} workers")
    loaded = ", ".join(sorted(workers.values())) or "none"
    words = f"not every model has a warm worker (warm: {loaded})"
    return Finding("models", WARN, "not_ready", words, "wait, then ask again; the server's log says why")


def judge_keys(fact: KeysFact, gateway: GatewayFact | None, robot: str) -> Finding:
    """Whether `robot` has usable keys, and whether the server takes them."""
    check = "keys"
    if not fact.folder:
        if fact.loopback or gateway is None:
            return skipped(check, "no_keys", "no --keys given; a server on this machine needs none")
        if gateway.cause:
            return skipped(check, "no_keys", "no --keys given")
        words = "the server takes robots without keys: anybody in this network can be a robot"
        return Finding(
            check, WARN, "open_server", words, f"rosa keys FOLDER --robot {robot}; docs/security.md"
        )
    if fact.problem:
        return Finding(check, FAIL, "bad_keys", fact.problem, "see docs/security.md")
    if gateway is None or gateway.cause:
        return skipped(check, "not_asked", f"well-formed and private; no server has seen the key of {robot}")
    if gateway.hello_cause == "wrong_key":
        return Finding(
            check, FAIL, "wrong_key", gateway.hello_reason, f"use the key of {robot}, or its name: --name"
        )
    if gateway.hello_cause != "unknown_task":
        words = f"the server did not say whether it takes {robot}: {gateway.hello_cause or 'no answer'}"
        return Finding(check, WARN, "not_confirmed", words, "ask again when the server is up")
    return fine(check, f"the server takes the key of {robot}")
