"""Finding 8: typing errors, plans that are too large, and Ctrl-C at the wrong moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attempts.attempt import ROSA, Attempt, Checkout, Happened
from attempts.late_demo import late_demo
from attempts.robots import DEMO, DOMAIN, cell_file, factory_file, in_a_folder
from rosa_server.serving.access import make_keys

FIGURE_3 = "configs/factory.yaml"
ONE_LINE = "exit 2 with one line that names it"
Words = Callable[[Checkout, Path], list[str]]


def refused(words: Words, says: str, limit_s: float = 15.0) -> Callable[[Checkout], Happened]:
    """A command with a mistake in it: it ends with 2 and says so in one line."""

    def tried(checkout: Checkout, folder: Path) -> Happened:
        ran = checkout.run(words(checkout, folder), folder, limit_s, domain=DOMAIN)
        return ran.words(says), ran.status == 2 and says in ran.said and not ran.traceback

    return in_a_folder(tried)


def rosa(*words: str) -> Words:
    return lambda checkout, folder: checkout.command(ROSA, *words)


def many_servers(checkout: Checkout, folder: Path) -> list[str]:
    path, _ = factory_file(folder)
    path.write_text(path.read_text().replace("num_servers: 1", "num_servers: 1" + "0" * 400))
    return checkout.command(ROSA, "check", str(path))


def out_is_a_file(checkout: Checkout, folder: Path) -> list[str]:
    (folder / "file").touch()
    return checkout.command(DEMO, "--episodes", "1", "--out", str(folder / "file"))


def seed(checkout: Checkout, folder: Path) -> list[str]:
    config = cell_file(checkout, folder)
    words = ("--episodes", "1", "--no-video", "--seed", "-1", "--config", str(config), "--out", str(folder))
    return checkout.command(DEMO, *words)


def no_monitor(checkout: Checkout, folder: Path) -> list[str]:
    config = cell_file(checkout, folder)
    text = config.read_text()
    start = text.index("  rosa/panda-task-monitor:\n    backend")
    config.write_text(text[:start] + text[text.index("\ngateway:") :])
    return checkout.command(DEMO, "--no-video", "--config", str(config), "--out", str(folder / "runs"))


def far_port(checkout: Checkout, folder: Path) -> list[str]:
    return checkout.command(ROSA, "serve", str(factory_file(folder)[0]), "--bind", "tcp://127.0.0.1:80000")


def option(checkout: Checkout, folder: Path) -> list[str]:
    return checkout.command(ROSA, "serve", str(factory_file(folder, options="{latency: 3}")[0]))


def weights(checkout: Checkout, folder: Path) -> list[str]:
    path, _ = factory_file(folder, backend="flow_policy", options="{weights: none.safetensors}")
    return checkout.command(ROSA, "serve", str(path))


def one_check(checkout: Checkout, folder: Path) -> Happened:
    """`rosa check` refuses what `rosa serve` refuses, in the same words."""
    make_keys(folder / "keys")
    cases: list[dict[str, str]] = [
        {"backend": "emulatd"},
        {"bind": "tcp://127.0.0.1:80000"},
        {"bind": "tcp://*:5570", "more": ", curve_keys: nowhere"},
        {"backend": "replay"},
    ]
    same = 0
    for case in cases:
        path, _ = factory_file(folder, **case)
        check, serve = (
            checkout.run(checkout.command(ROSA, name, str(path)), folder, 15.0) for name in ("check", "serve")
        )
        same += check.status == serve.status == 2 and check.said.removeprefix(
            "rosa check: "
        ) == serve.said.removeprefix("rosa serve: ")
    return f"{same} of {len(cases)} refused by both in the same words", same == len(cases)


def large_plan(robots: int, servers: int, statuses: tuple[int, ...]) -> Callable[[Checkout], Happened]:
    """Over within a little more than a minute, with a word on the way."""

    def tried(checkout: Checkout, folder: Path) -> Happened:
        words = ["plan", FIGURE_3, "--what-if", f"robots={robots}", f"servers={servers}"]
        ran = checkout.run(checkout.command(ROSA, *words), folder, limit_s=90.0)
        told = any("s of at most" in line for line in ran.said.splitlines())
        how = f"exit {ran.status}" if ran.status is not None else "still runs"
        word = "a word on the way" if told else "no word on the way"
        holds = ran.status in statuses and (told or ran.seconds < 15)
        return f"{how} after {ran.seconds:.0f} s, {word}", holds

    return in_a_folder(tried)


def ctrl_c(checkout: Checkout, folder: Path) -> Happened:
    words = checkout.command(ROSA, "plan", FIGURE_3, "--what-if", "robots=100000", "servers=30000")
    ran = checkout.run(words, folder, limit_s=60.0, interrupt_s=0.7)
    return ran.words(), ran.status == 130 and not ran.traceback


def ctrl_c_in_a_demo(checkout: Checkout) -> Happened:
    ran, _ = late_demo(checkout)
    trace = "a traceback" if ran.traceback else "no traceback"
    return f"exit {ran.status}, {trace}", ran.status == 130 and not ran.traceback


def typing_error(tried: str, words: Words, says: str, limit_s: float = 15.0) -> Attempt:
    return Attempt(8, tried, ONE_LINE, refused(words, says, limit_s))


TYPING_ERRORS = (
    typing_error("`num_servers` with 400 zeros", many_servers, "server_cluster.num_servers"),
    typing_error("`rosa keys /dev/null`", rosa("keys", "/dev/null"), "Not a directory"),
    typing_error("`make demo`, `--out` is a file", out_is_a_file, "Not a directory"),
    typing_error("`make demo`, `--seed -1`", seed, "--seed: expected a whole number", 90.0),
    typing_error("`make demo`, a factory without the monitor's model", no_monitor, "is missing; add", 90.0),
    typing_error("`rosa serve --bind tcp://127.0.0.1:80000`", far_port, "expected a port"),
    typing_error("`rosa serve`, a backend option that there is not", option, "is unknown to emulated"),
    typing_error("`rosa serve`, weights that are not there", weights, "there is no"),
    Attempt(
        8,
        "`rosa check` and `rosa serve`: unknown backend, port 80000, no keys, a missing option",
        "both refuse each in the same words",
        in_a_folder(one_check),
    ),
    Attempt(
        8,
        "`rosa plan --what-if robots=1000000 servers=300000`",
        "a word on the way, given up after a minute",
        large_plan(1_000_000, 300_000, (4,)),
    ),
    Attempt(
        8,
        "`rosa plan --what-if robots=100000 servers=30000`",
        "planned within a minute",
        large_plan(100_000, 30_000, (0,)),
    ),
    Attempt(8, "Ctrl-C 0.7 s after the start of `rosa plan`", "130, no traceback", in_a_folder(ctrl_c)),
    Attempt(8, "Ctrl-C while the video of a demo renders", "130, no traceback", ctrl_c_in_a_demo),
)
