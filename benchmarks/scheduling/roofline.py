"""How far profiles by roofline are from published times: predicted, published, and their ratio.

    python -m benchmarks.scheduling.roofline

A published time is either measured, and compared with what `rosa profile --roofline` writes, or a limit: a roofline of
somebody else's at the full peaks, compared with ours at the full peaks. Nothing here was fitted. Sources: the four
papers, GR00T's own table, and VLA-Perf (arXiv 2602.18397), whose measured times are those of arXiv 2510.26742.
Rows and aims go to `benchmarks/results/roofline.json`, from which `make docs` writes the table and the figures of
docs/bring_your_own.md. Nothing runs but arithmetic, so a test compares the file with what the code says now.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks import RESULTS
from benchmarks.conclude import print_aims, write
from rosa_server.scheduler.profiles.roofline import PEAKS, Run, gpu_of, memory_mb, service_ms

MEASURED, LIMIT = "measured", "limit"
WITHIN = 0.10  # of the limits of VLA-Perf's Table 3
A_FACTOR = 2.0  # of what is measured, either way
RESULT = RESULTS / "roofline.json"
HOW = "; arithmetic alone: no machine is measured"
NOTE = (
    "ratio: predicted over published. measured: against the profile that `rosa profile --roofline` writes; limit: of"
    " somebody else's roofline, at the full peaks, against ours at the full peaks. Nothing was fitted."
)
Row = dict[str, Any]


class Network(NamedTuple):
    """A transformer (VLA-Perf, Table 11): parameters without the vocabulary, and what its layers are."""

    parameters: float
    layers: int
    hidden: int
    between: int
    queries: int  # values of a token's queries in a layer, of all heads
    keys: int  # of its keys, and of its values
    ways: int  # into the middle of its feed-forward part: 2 where one gates the other

    def token_bytes(self, looked_at: float = 0.0) -> float:
        """Moved for one token besides the weights, 16 bit: what each product reads and writes, and of the cache
        `looked_at` tokens' keys and values."""
        attention = (self.hidden + self.queries + 2 * self.keys) + 2 * self.queries
        back = self.queries + self.hidden
        forward = self.hidden + self.ways * self.between + self.between + self.hidden
        return 2.0 * self.layers * (attention + back + forward + looked_at * 2 * self.keys)

    def run(self, times: int, tokens: int, cached: int = 0) -> Run:
        """`cached`: tokens in the cache, which all tokens of the run read together."""
        return Run(times, self.parameters, tokens, self.token_bytes(cached / tokens))


VISION = Network(411.19e6, 27, 1152, 4304, 16 * 72, 16 * 72, 1)
LANGUAGE = Network(1.98e9, 18, 2048, 16_384, 8 * 256, 256, 2)
ACTION = Network(292.63e6, 18, 1024, 4096, 8 * 256, 256, 2)
CAMERA_TOKENS = 256


def pi0(cameras: int, words: int, chunk: int) -> tuple[Run, ...]:
    """pi0 with ten flow steps: vision, language, action."""
    seen = cameras * CAMERA_TOKENS
    return (
        VISION.run(1, seen),
        LANGUAGE.run(1, seen + words),
        ACTION.run(10, chunk, cached=seen + words),
    )


def larger_pi0(vision: float, language: float, action: float) -> tuple[Run, ...]:
    """VLA-Perf's Table 5: only the parameters are given, so nothing is moved but the weights."""
    return Run(1, vision, 768), Run(1, language, 800), Run(10, action, 50)


class Published(NamedTuple):
    """One published time."""

    source: str
    what: str
    hardware: str
    ms: float
    kind: str
    runs: tuple[Run, ...]


# Of these three the numbers of tokens and parameters are ours, where the sources give none.
# Eyes, a prompt, six tokens after the first.
OPENVLA = (Run(1, 0.73e9, 256), Run(1, 6.74e9, 280), Run(6, 6.74e9, 1))
# A frame of the baseline: action and language each see for themselves, ten flow steps, five tokens.
PI05 = (Run(2, 0.41e9, 768), Run(2, 2.0e9, 968), Run(10, 0.3e9, 11), Run(5, 2.5e9, 1))
GR00T = (Run(1, 2.0e9, 300), Run(4, 1.1e9, 51))
ORIN, THOR = "NVIDIA Jetson AGX Orin", "NVIDIA Jetson AGX Thor"
RTX_4090, RTX_5090 = "NVIDIA RTX 4090", "NVIDIA RTX 5090"
A100, H100, B100, H200 = "NVIDIA A100", "NVIDIA H100", "NVIDIA B100", "NVIDIA H200"
TABLE_3 = {  # vision, language and action, end to end, ms
    THOR: ((6.06, 20.30, 26.20), 52.57),
    RTX_4090: ((4.02, 19.79, 7.25), 31.06),
    A100: ((2.13, 10.47, 3.60), 16.20),
    H100: ((0.71, 3.30, 2.14), 6.15),
    B100: ((0.40, 1.87, 0.91), 3.18),
}
TABLE_5_HZ = (
    ("pi0-L (9.1B)", (1.1e9, 6.5e9, 1.5e9), {THOR: 3.9, RTX_4090: 8.0, B100: 73.6}),
    ("pi0-XL (16.7B)", (1.1e9, 12.7e9, 2.9e9), {THOR: 2.1, B100: 39.7}),
    ("pi0-XXL (81.3B)", (1.1e9, 68.5e9, 11.7e9), {B100: 9.6}),
)
TABLE_1 = {1: (14.7, 20.0), 2: (22.5, 27.3), 3: (30.4, 36.8)}  # cameras -> limit, measured on an RTX 4090
GR00T_OWN = {RTX_5090: 31.0, RTX_4090: 43.0, THOR: 92.0, ORIN: 173.0, H100: 36.0}


def published() -> list[Published]:
    """All of them."""
    tuned = "pi0 in Triton kernels, {} camera{}"
    found = [
        Published("ActionFlow, Table 1", "OpenVLA-7B", ORIN, 803.0, MEASURED, OPENVLA),
        Published("ActionFlow, Table 1", "OpenVLA-7B", RTX_5090, 131.2, MEASURED, OPENVLA),
        Published(
            "OxyGen, 4.3",
            "pi0.5, action and language apart, 10 actions at 49.9 Hz",
            RTX_4090,
            10_000 / 49.9,
            MEASURED,
            PI05,
        ),
        Published("ROSA, 4.3", "GR00T-N1.6, saturated", H200, 46.9, MEASURED, GR00T),
    ]
    for hardware, ms in GR00T_OWN.items():
        found.append(Published("GR00T's own table", "GR00T-N1.6, TensorRT", hardware, ms, MEASURED, GR00T))
    for cameras, (limit, measured) in TABLE_1.items():
        runs = pi0(cameras, 0, 63)
        what = tuned.format(cameras, "s" * (cameras > 1))
        found.append(Published("VLA-Perf, Table 1", what, RTX_4090, measured, MEASURED, runs))
        found.append(Published("VLA-Perf, Table 1", what, RTX_4090, limit, LIMIT, runs))
    for hardware, (parts, whole) in TABLE_3.items():
        runs = pi0(3, 32, 50)
        found.append(Published("VLA-Perf, Table 3", "pi0", hardware, whole, LIMIT, runs))
        for name, run, ms in zip(("vision", "language", "action"), runs, parts, strict=True):
            found.append(Published("VLA-Perf, Table 3", f"pi0, {name} alone", hardware, ms, LIMIT, (run,)))
    for what, sizes, rates in TABLE_5_HZ:
        for hardware, hz in rates.items():
            found.append(Published("VLA-Perf, Table 5", what, hardware, 1000 / hz, LIMIT, larger_pi0(*sizes)))
    return found


def row_of(one: Published) -> Row:
    """Predicted, published, ratio; and whether the weights fit into the GPU's memory."""
    gpu = gpu_of(one.hardware)
    ms = service_ms(one.runs, gpu) if one.kind == MEASURED else service_ms(one.runs, gpu, reached=PEAKS)
    return {
        "source": one.source,
        "what": one.what,
        "hardware": one.hardware,
        "kind": one.kind,
        "predicted_ms": round(ms, 2),
        "published_ms": round(one.ms, 2),
        "ratio": round(ms / one.ms, 3),
        "fits": memory_mb(one.runs) <= gpu.memory_mb,
    }


def rows() -> list[Row]:
    return [row_of(one) for one in published()]


def aims_of(found: list[Row]) -> list[Row]:
    """Limits agree, and measured times are within a factor of two."""
    whole = [one for one in found if one["source"] == "VLA-Perf, Table 3" and one["what"] == "pi0"]
    farthest = max(whole, key=lambda one: abs(one["ratio"] - 1))
    measured = [one for one in found if one["kind"] == MEASURED]
    near = [one for one in measured if 1 / A_FACTOR <= one["ratio"] <= A_FACTOR]
    beyond = sorted({f"{one['what']} on {one['hardware']}" for one in measured if one not in near})
    return [
        {
            "aim": f"limits are within {WITHIN:.0%} of VLA-Perf's for pi0 on all of its five GPUs (Table 3)",
            "value": f"{farthest['ratio'] - 1:+.0%} at worst, on {farthest['hardware']}",
            "holds": abs(farthest["ratio"] - 1) <= WITHIN,
        },
        {
            "aim": f"profiles are within a factor of {A_FACTOR:g} of every measured time",
            "value": f"{len(near)} of {len(measured)}" + (f"; not {', '.join(beyond)}" if beyond else ""),
            "holds": not beyond,
        },
    ]


def page_lines(found: list[Row]) -> list[str]:
    """The table of docs/bring_your_own.md, and below it what it comes to."""
    lines = ["| published | on | as | predicted ms | published ms | ratio |", "|---|---|---|---|---|---|"]
    for one in found:
        if "alone" in one["what"]:
            continue
        numbers = [
            f"{one[name]:.{1 if one[name] < 100 else 0}f}" for name in ("predicted_ms", "published_ms")
        ]
        cells = [
            f"{one['what']} ({one['source']})",
            str(one["hardware"]).removeprefix("NVIDIA "),
            one["kind"],
            *numbers,
            f"{one['ratio']:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *_summary(found)]


def _summary(found: list[Row]) -> list[str]:
    """How far off they are, in words, from the rows."""
    whole = [one for one in found if "alone" not in one["what"]]
    given = [one for one in whole if one["kind"] == LIMIT and one["source"] != "VLA-Perf, Table 5"]
    weights = [one for one in whole if one["source"] == "VLA-Perf, Table 5"]
    triton = [one for one in whole if one["kind"] == MEASURED and "Triton" in one["what"]]
    large = [one for one in whole if one["kind"] == MEASURED and one["hardware"] in (H100, H200)]
    others = [one for one in whole if one["kind"] == MEASURED and one not in triton and one not in large]
    return [
        f"Limits of pi0 are {_ratios(given)} of VLA-Perf's; of the larger models, of which weights alone are known,"
        f" {_ratios(weights)}.",
        f"Measured times: {_ratios(triton)} for hand-tuned Triton kernels, {_ratios(large)} for a small model on H100"
        f" or H200, {_ratios(others)} for the {len(others)} others.",
    ]


def _ratios(found: list[Row]) -> str:
    """The lowest and the highest ratio."""
    ratios = [one["ratio"] for one in found]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def main() -> None:
    found = rows()
    for one in found:
        print(
            f"{one['source']:20} {one['what']:56} {one['hardware'].removeprefix('NVIDIA '):16} {one['kind']:8}"
            f" predicted {one['predicted_ms']:8.2f} ms, published {one['published_ms']:8.2f} ms,"
            f" ratio {one['ratio']:.2f}"
            + ("" if one["fits"] else "  (more than its memory, with what is beside the weights)")
        )
    aims = aims_of(found)
    print_aims(aims)
    write(RESULT, found, aims, [NOTE], how=HOW)


if __name__ == "__main__":
    main()
