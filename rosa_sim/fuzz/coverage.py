"""python -m rosa_sim.fuzz.coverage [--seconds 60] [--parser NAME]: coverage-guided search, each parser in a process.

atheris (libFuzzer) changes inputs, keeps those that reach new code, and reports one that breaks a promise of
`parsers.py`, takes longer than `MAX_SECONDS`, or `MAX_MB` more than the process had before. What it finds is kept in
`.cache/fuzz` between runs; `--keep` puts a sample of it into the repository. `results/parsers.json` adds up what was
searched in all runs, since an hour for each parser is more than a day's work of this command.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from rosa_sim.fuzz.hours import CoverageResult, record

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".cache" / "fuzz"
MAX_SECONDS = 5  # of processor time, for one input
PATIENCE_S = 600  # for a start, and for the last input, where everybody else goes first
STARTED = "the parser is loaded after"  # and then the seconds of processor time, which search nothing
MAX_MB = 1024
MAX_INPUT_BYTES = 4096
MAX_KEPT, MAX_KEPT_BYTES = 24, 24_000  # inputs of a parser that are put into the repository at a time
INSTRUMENTED = [
    *("rosa_contract", "rosa_server.scheduler", "rosa_server.serving", "rosa_server.frontends"),
    *("rosa_server.models.remote", "yaml"),
]


def search(parser: str, seconds: int) -> CoverageResult:
    """Look for an input that breaks the promise of a parser."""
    # atheris has to be there before what it instruments, so that this module imports neither.
    found, fresh = WORK / "broken", WORK / parser
    for folder in (found, fresh):
        folder.mkdir(parents=True, exist_ok=True)
    prefix = found / f"{parser}-"
    before = set(found.glob(f"{parser}-*"))
    command = [
        *(sys.executable, "-m", "rosa_sim.fuzz.coverage", "--one", parser, "--", str(fresh)),
        *(f"-max_total_time={seconds}", f"-timeout={PATIENCE_S}"),
        *(f"-max_len={MAX_INPUT_BYTES}", f"-artifact_prefix={prefix}", "-print_final_stats=1"),
    ]
    before_s = _children_s()
    log = WORK / f"{parser}.log"
    with log.open("wb") as file, suppress(subprocess.TimeoutExpired):
        # Where nothing is left of the machine's time, what was searched by then counts.
        subprocess.run(command, stdout=file, stderr=file, timeout=seconds + PATIENCE_S, cwd=ROOT)
    told = log.read_text(errors="replace")
    started_s = sum(float(one) for one in re.findall(rf"{STARTED} ([\d.]+) s", told))
    cpu_s = max(0.0, _children_s() - before_s - started_s)
    runs = re.findall(r"(?:stat::number_of_executed_units:\s*|^#)(\d+)", told, re.MULTILINE)
    features = re.findall(r"\bft: (\d+)", told)
    new = [
        path
        for path in sorted(set(found.glob(f"{parser}-*")) - before)
        if not ("-timeout-" in path.name and in_time(parser, path))
    ]
    broken = str(new[0]) if new else ""
    lines = told.splitlines()
    raised = next(
        (at for at, line in enumerate(lines) if "Uncaught Python exception" in line), len(lines) - 12
    )
    report = "\n".join(lines[raised : raised + 40])
    return CoverageResult(
        parser, int(runs[-1]) if runs else 0, cpu_s, int(features[-1]) if features else 0, broken, report
    )


def in_time(parser: str, path: Path) -> bool:
    """Whether an input at which libFuzzer gave up keeps its promise within `MAX_SECONDS` of processor time.

    libFuzzer goes by the clock, and a process may be stopped for as long as its `PATIENCE_S`.
    """
    command = [sys.executable, "-m", "rosa_sim.fuzz.coverage", "--again", str(path), "--parser", parser]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, cwd=ROOT).returncode == 0


def again(parser: str, path: Path) -> None:
    """One input alone. Raises what the parser raises; the kernel ends a process that computes for too long."""
    from rosa_sim.fuzz.parsers import PARSERS

    end_s = math.ceil(time.process_time()) + MAX_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (end_s, end_s))
    PARSERS[parser](path.read_bytes())


def in_bounded_time(parse: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The same parser, to which an input is one that breaks its promise where it takes longer than `MAX_SECONDS`."""

    def timed(content: bytes) -> None:
        begin_s = time.process_time()
        parse(content)
        took_s = time.process_time() - begin_s
        if took_s > MAX_SECONDS:
            raise AssertionError(f"an input of {len(content)} bytes took {took_s:.1f} s of processor time")

    return timed


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one(parser: str, arguments: Sequence[str]) -> None:
    """The search itself; ends the process."""
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED, enable_loader_override=False):
        from rosa_sim.fuzz.parsers import PARSERS, corpus
    fresh = Path(arguments[0])  # where libFuzzer keeps what it finds
    for number, content in enumerate(corpus(parser)):
        (fresh / f"seed{number}").write_bytes(content)
    # libFuzzer reads the peak of this process, to which Linux adds that of the parent before exec (getrusage(2)).
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    limit = f"-rss_limit_mb={peak_mb + MAX_MB}"
    print(f"{STARTED} {time.process_time():.1f} s", file=sys.stderr, flush=True)
    atheris.Setup([f"rosa_sim.fuzz.coverage {parser}", *arguments, limit], in_bounded_time(PARSERS[parser]))
    atheris.Fuzz()


def keep(parser: str) -> int:
    """Put a sample of what was found into the repository, of all lengths. Returns how many inputs are there now.

    libFuzzer keeps an input only when it reaches something new, and replaces it by a shorter one that does too.
    """
    from rosa_sim.fuzz.parsers import corpus, save_corpus

    found = sorted((path.read_bytes() for path in (WORK / parser).iterdir()), key=len)
    room, kept = MAX_KEPT_BYTES, corpus(parser)
    for content in found[:: max(1, len(found) // MAX_KEPT)]:
        room -= len(content)
        if room < 0:
            break
        kept.append(content)
    save_corpus(parser, kept)
    return len(corpus(parser))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="rosa_sim.fuzz.coverage", description="search for inputs that break parsers"
    )
    parser.add_argument("--seconds", type=int, default=30, help="for each parser")
    parser.add_argument("--parser", action="append", help="only this one; may be given again")
    parser.add_argument(
        "--keep", action="store_true", help="do not search; put what was found into the repository"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--again", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if importlib.util.find_spec("atheris") is None:
        print("coverage: atheris is missing; pip install atheris (Linux on x86-64)", file=sys.stderr)
        return 2
    if given.one:
        one(given.one, given.rest)
    if given.again:
        again(given.parser[0], given.again)
        return 0
    from rosa_sim.fuzz.parsers import PARSERS

    names = given.parser or list(PARSERS)
    if unknown := [name for name in names if name not in PARSERS]:
        parser.error(f"no parser {unknown[0]}; there are {', '.join(PARSERS)}")
    broken = 0
    for name in names:
        if given.keep:
            print(f"{name}: {keep(name)} inputs", flush=True)
            continue
        found = search(name, given.seconds)
        if not (found.runs or found.broken):
            print(f"{name}: it did not run\n{found.report}", flush=True)
            broken += 1
            continue
        words = f"BROKEN by {found.broken}\n{found.report}" if found.broken else "holds"
        print(
            f"{name}: {found.runs} inputs in {found.cpu_s:.0f} s, {found.features} features: {words}",
            flush=True,
        )
        broken += bool(found.broken)
        record(found, list(PARSERS))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
