"""`rosa profile MODEL`: measure a backend and write its profile, or plot profiles that exist."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from rosa_contract.errors import CodecError, ConfigError
from rosa_contract.wire.images import check_size
from rosa_contract.wording import nearest
from rosa_server.commands.chosen import add_choice, chosen
from rosa_server.models.backend import Backend, capabilities_of
from rosa_server.models.checksums import verify
from rosa_server.scheduler.commands.cpu_time import Counted, CpuTime
from rosa_server.scheduler.commands.picture_cost import decoding_of, model_cores
from rosa_server.scheduler.commands.plan_options import check_picture
from rosa_server.scheduler.profiles.library import DEFAULT_ROOT, ProfileLibrary, hardware_folder
from rosa_server.scheduler.profiles.measure import (
    RATE_SHARES,
    Clock,
    Progress,
    Sleep,
    UnsteadyMachine,
    batchings,
    measure_batching,
)
from rosa_server.scheduler.profiles.measure_continuous import measure_continuous
from rosa_server.scheduler.profiles.measured_facts import measured_facts
from rosa_server.scheduler.profiles.profile import (
    EMULATED,
    MEASURED,
    SCHEMA,
    Configuration,
    Decoding,
    Profile,
    load_profile,
    save_profile,
)
from rosa_server.scheduler.profiles.roofline import GPUS, roofline_profile, run_from
from rosa_server.serving.base.malloc import keep_freed_memory
from rosa_server.serving.worker.elsewhere import backend_of

BAR = 30
STAND_INS = ("emulated", "null", "replay")  # backends that take as long as they were told, or no time
UNSTEADY = 4  # exit status: the machine had other work


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `profile` to a command line's sub-commands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "profile",
        help="measure a model's latency on this hardware for the scheduler",
        description="Measure latency at ten open-loop request rates for each batching configuration and write a"
        " profile. After an interruption, run it again to continue. Exit status: 0 done, 2 wrong input, 4"
        " the machine was too busy for steady measurements.",
    )
    add_choice(parser)
    parser.add_argument("--component", default="system1", help="component named in the requests")
    parser.add_argument(
        "--only",
        action="store_true",
        help="store the result for this component only, not for the whole model",
    )
    parser.add_argument(
        "--hardware", default="cpu", help="name of this machine's hardware, as in server_cluster.gpu_type"
    )
    parser.add_argument(
        "--hardware-memory-mb",
        type=float,
        help="memory of the hardware, MB; default: GPU memory, or RAM for cpu",
    )
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="measure CPU time instead of elapsed time, for a CPU model on a machine that is shared with other"
        " work",
    )
    parser.add_argument("--batches", default="2,4,8", help="batch sizes to measure in addition to 1")
    parser.add_argument(
        "--roofline",
        nargs="+",
        metavar="TIMESxPARAMETERSxTOKENS",
        help="derive the profile from the GPU's data sheet instead of measuring. Each value is a group of"
        " model passes in one request: 1x2.9e9x968 10x0.3e9x11 is one pass of 2.9 G parameters over 968"
        " tokens and ten of 0.3 G over 11. An optional fourth factor, TIMESxPARAMETERSxTOKENSxBYTES, is"
        " the bytes of activations and cache moved per token besides the weights",
    )
    parser.add_argument(
        "--bytes-per-parameter",
        type=float,
        default=2.0,
        help="with --roofline: bytes per parameter (default: 2, for 16 bit)",
    )
    parser.add_argument("--requests", type=int, default=300, help="requests per measured rate")
    parser.add_argument(
        "--decode-cores",
        type=float,
        help="CPU cores per worker for decoding JPEGs; default: all; 0: robots send raw pictures",
    )
    parser.add_argument(
        "--picture",
        metavar="WIDTHxHEIGHT",
        help="picture size that robots send, if an adapter resizes it; default: the model's input size",
    )
    parser.add_argument(
        "--profiles", type=Path, default=DEFAULT_ROOT, help="folder of profiles, <hardware>/<model>.yaml"
    )
    parser.add_argument(
        "--plot",
        nargs="?",
        const="",
        metavar="FILE",
        help="plot the profile; if one exists, only plot it",
    )
    parser.add_argument("--again", action="store_true", help="measure again even if a profile exists")
    parser.set_defaults(run=main)
    return parser


def main(args: argparse.Namespace) -> int:
    """Run `rosa profile`. Exit status 0; 4: no steady measurement, what was measured is kept.

    Raises `ConfigError` for wrong input.
    """
    if args.plot:
        check_picture("--plot", Path(args.plot))
    try:
        path = ProfileLibrary(args.profiles).path(args.model, args.hardware)
        if path.exists() and not args.again:
            if args.plot is None:
                problem = "exists already; --again measures it again, --plot draws it"
                raise ConfigError(str(path), [problem])
            profile = load_profile(path)
        else:
            profile = _derived(args, path) if args.roofline else _measured(args, path)
    except UnsteadyMachine as error:
        print(f"\nrosa profile {args.model}: {error}", file=sys.stderr)
        return UNSTEADY
    if args.plot is not None:
        target = Path(args.plot) if args.plot else path.with_suffix(".png")
        plot(profile, target)
        print(f"plotted {target}")
    return 0


def _derived(args: argparse.Namespace, path: Path) -> Profile:
    """A profile of what nobody has measured."""
    try:
        runs = [run_from(text) for text in args.roofline]
    except ValueError as error:
        raise ConfigError("--roofline", [str(error)]) from None
    if not 0.125 <= args.bytes_per_parameter <= 8:
        raise ConfigError("--bytes-per-parameter", [f"expected 0.125 to 8, got {args.bytes_per_parameter:g}"])
    components = (args.component,) if args.only else ()
    words = f"rosa profile {args.model} --hardware '{args.hardware}' --roofline {' '.join(args.roofline)}"
    try:
        profile = roofline_profile(
            args.model, args.hardware, runs, _batches(args), components, args.bytes_per_parameter, words
        )
    except KeyError:
        hint = nearest(hardware_folder(args.hardware), GPUS)
        problem = f"no data sheet of {args.hardware!r}{hint}; there are {', '.join(GPUS)}"
        raise ConfigError("--hardware", [problem]) from None
    others, _ = _others(path, "", components)
    profile = replace(profile, configurations=(*others, *profile.configurations))
    path.parent.mkdir(parents=True, exist_ok=True)
    save_profile(profile, path)
    print(f"wrote {path}: derived, {profile.batch_latency_ms['1']:.1f} ms for one request alone")
    return load_profile(path)


def _batches(args: argparse.Namespace) -> list[int]:
    try:
        sizes = [int(part) for part in args.batches.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise ConfigError("--batches", [f"expected numbers such as 2,4,8, got {args.batches!r}"])
    return sizes


def _picture(args: argparse.Namespace) -> tuple[int, int] | None:
    """(height, width) px of `--picture`."""
    if args.decode_cores is not None and not 0 <= args.decode_cores <= 4096:
        raise ConfigError("--decode-cores", [f"expected 0 to 4096, got {args.decode_cores:g}"])
    if args.picture is None:
        return None
    width, _, height = args.picture.partition("x")
    if not (width.isdecimal() and height.isdecimal() and min(size := (int(height), int(width))) >= 1):
        raise ConfigError("--picture", [f"expected a size such as 640x480, got {args.picture!r}"])
    try:
        check_size(*size)
    except CodecError as error:
        raise ConfigError("--picture", [str(error)]) from None
    return size


def _measured(args: argparse.Namespace, path: Path) -> Profile:
    if args.requests < 50:
        raise ConfigError("--requests", [f"expected at least 50 for a meaningful p99, got {args.requests}"])
    if args.hardware_memory_mb is not None and not 0 < args.hardware_memory_mb < inf:
        raise ConfigError("--hardware-memory-mb", [f"expected more than 0, got {args.hardware_memory_mb:g}"])
    batches, picture = _batches(args), _picture(args)
    model, options, _ = chosen(args)
    verify(model.sha256, {**model.options, **options})
    backend = backend_of(args.model, model, **options)
    origin = EMULATED if model.backend in STAND_INS else MEASURED  # where its figures come from
    how = repr((model, options, args.component, args.requests, args.cpu_time))
    component = (args.component,) if args.only else ()
    partial = path.with_suffix(f".{'.'.join((*component, 'partial'))}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    progress, cpu = Progress.load(partial, how), CpuTime()
    backend.load()
    try:
        backend.warm_up()
        memory_mb, given = max(1.0, backend.memory_mb), args.hardware_memory_mb
        hardware_memory_mb = given or _memory_mb(args.hardware)
        if memory_mb > hardware_memory_mb:
            words = f"the model takes {memory_mb:g} MB, which do not fit {hardware_memory_mb:g} MB"
            raise ConfigError("--hardware-memory-mb", [words])
        able = capabilities_of(backend)
        engine, at_once = able.engine, able.at_once
        needs = able.nominal or backend.input_spec
        sizes = {name: picture or (size[0], size[1]) for name, size in needs.images.items()}
        configurations, of_others = _others(path, engine, component)
        if at_once > 1:
            found = _continuous(args, cpu, backend, at_once, engine)
            configurations.append(replace(found, components=component))
        todo = batchings(able.batch_sizes or batches, backend.max_batch) if at_once == 1 else []
        for index, batching in enumerate(todo):
            steps = measure_batching(
                backend,
                batching,
                args.component,
                args.requests,
                *_clock(args, cpu),
                progress,
                args.only,
            )
            for step in steps:
                if isinstance(step, Configuration):
                    configurations.append(replace(step, engine=engine))
                    continue
                progress.save(partial)
                done = len(progress.points[batching.key]) / len(RATE_SHARES)
                _progress(
                    (index + done) / len(todo),
                    f"{batching.key} at {step[0]:.0%}: p99 {step[1].p99_ms:.1f} ms",
                )
        decoding = Decoding()
        if sizes and args.decode_cores != 0:
            keep_freed_memory()  # as a worker does: else every picture pays page faults
            busy = model_cores(backend, needs, args.component)
            decoding = decoding_of(sizes, busy, args.decode_cores)
    finally:
        backend.close()
    print(file=sys.stderr)
    widest = max(
        configurations,
        key=lambda c: (c.engine == engine, c.components == component, c.batching == "dynamic", c.batch),
    )
    profile = Profile(
        SCHEMA,
        args.model,
        args.hardware,
        of_others or origin,
        memory_mb,
        hardware_memory_mb,
        tuple(configurations),
        f"rosa profile {args.model} --hardware {args.hardware} --requests {args.requests}"
        + " --cpu-time" * args.cpu_time,
        tuple(
            replace(fact, kind="assumed") if origin == EMULATED and fact.kind == "measured" else fact
            for fact in measured_facts(
                configurations, args.requests, memory_mb, hardware_memory_mb, bool(given), args.cpu_time
            )
        ),
        batch_latency_ms={str(entry.size): entry.ms for entry in widest.service},
        decoding=decoding,
        every_size=not able.batch_sizes,
    )
    save_profile(profile, path)
    load_profile(path)
    partial.unlink(missing_ok=True)
    print(f"wrote {path}")
    return profile


def _others(path: Path, engine: str, component: tuple[str, ...]) -> tuple[list[Configuration], str]:
    """What an existing profile of the same model says of other engines, and with `--only` of other components; and
    where that comes from, if it was not measured."""
    if not path.exists():
        return [], ""
    profile = load_profile(path)
    found = [
        one
        for one in profile.configurations
        if (engine and one.engine not in ("", engine))
        or (component and one.components and one.components != component)
    ]
    return found, profile.origin if found and profile.origin != MEASURED else ""


def _clock(args: argparse.Namespace, cpu: CpuTime) -> tuple[Clock, Sleep]:
    return (cpu.clock, cpu.sleep) if args.cpu_time else (time.perf_counter, time.sleep)


def _continuous(
    args: argparse.Namespace, cpu: CpuTime, backend: Backend, at_once: int, engine: str
) -> Configuration:
    """Measured with real callers, as many as the backend takes at a time."""
    with ThreadPoolExecutor(at_once) as pool:
        callers = Counted(pool, cpu)
        for step in measure_continuous(
            backend, at_once, args.component, args.requests, *_clock(args, cpu), callers, engine
        ):
            if isinstance(step, Configuration):
                return step
            _progress(step[0], f"continuous {engine} at {step[0]:.0%}: p99 {step[1].p99_ms:.1f} ms")
    raise RuntimeError("the measurement ended without a configuration")


def _progress(share: float, words: str) -> None:
    filled = round(BAR * share)
    print(
        f"\r[{'#' * filled}{'.' * (BAR - filled)}] {share:4.0%} {words:<40}",
        end="",
        file=sys.stderr,
        flush=True,
    )


def _memory_mb(hardware: str) -> float:
    if hardware != "cpu":
        query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
            printed = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
            return float(printed.split()[0]) * 1.048576  # MiB
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6


def plot(profile: Profile, path: Path) -> None:
    """p50 and p99 over request rate, a line per batching configuration."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for index, configuration in enumerate(profile.configurations):
        colour = f"C{index % 10}"
        rates = [point.rate_hz for point in configuration.latency]
        label = f"{configuration.label} {'/'.join(configuration.components)}".strip()
        axes.plot(
            rates, [point.p99_ms for point in configuration.latency], "-", color=colour, label=f"{label} p99"
        )
        axes.plot(rates, [point.p50_ms for point in configuration.latency], ":", color=colour)
    axes.set_yscale("log")
    axes.set_xlabel("requests per second")
    axes.set_ylabel("latency, ms (dotted: p50)")
    axes.set_title(f"{profile.model} on {profile.hardware}, {profile.origin}", fontsize=9)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
