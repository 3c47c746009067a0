"""`make test-compiled`: compiled modules do what the plain files do, byte by byte and decision by decision."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600.0
# Every kind of message, as bytes and read back, and why each damaged one is refused.
MESSAGES = """
import random
import re
from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from tests.unit.contract.wire.samples import MESSAGES
print(codec.__file__)
chance = random.Random(7)
for message in MESSAGES:
    frames = codec.encode(message)
    print(type(message).__name__, [bytes(frame).hex() for frame in frames])
    print([bytes(frame).hex() for frame in codec.encode(codec.decode(frames))])
    for _ in range(300):
        damaged = bytearray(frames[0])
        for _ in range(chance.choice((1, 1, 1, 4))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            print(re.sub("<memory at [^>]*>", "<memory>", str(codec.decode([bytes(damaged), *frames[1:]]))))
        except CodecError as error:
            print(error.cause, error)
"""


@pytest.fixture(scope="module")
def folder() -> Path:
    """The compiled packages."""
    command = [sys.executable, str(ROOT / "scripts" / "compiled.py"), "--serving"]
    return Path(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


def said(place: Path, *command: str) -> str:
    """What a command prints with the packages of `place`."""
    path = os.pathsep.join(dict.fromkeys([str(place), str(ROOT)]))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, "-P", *command],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_messages_are_the_same_bytes_and_refused_for_the_same_causes(folder: Path) -> None:
    where, compiled = said(folder, "-c", MESSAGES).split("\n", 1)
    assert Path(where).is_relative_to(folder) and where.endswith(".so")
    plain_where, plain = said(ROOT, "-c", MESSAGES).split("\n", 1)
    assert plain_where.endswith(".py")
    assert compiled == plain and "checksum_mismatch" in plain and "not_msgpack" in plain


@pytest.mark.parametrize("which", [(), ("--nodes",)], ids=["one gateway", "several"])
def test_a_fleet_under_random_faults_is_served_the_same(folder: Path, which: tuple[str, ...]) -> None:
    for seed in (3, 11):
        command = ("-m", "rosa_sim.chaos", *which, "replay", str(seed))
        compiled, plain = (without_time(said(place, *command)) for place in (folder, ROOT))
        assert compiled == plain and "every promise held" in plain


def without_time(text: str) -> str:
    """The last line ends with how long it took."""
    assert re.search(r", [\d.]+ s\n$", text), text
    return text.rpartition(",")[0]


def test_every_module_of_the_path_is_compiled(folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("compiled", ROOT / "scripts" / "compiled.py")
    assert spec is not None and spec.loader is not None
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        modules = script.cores(script.SERVING)
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    for module in modules:
        assert list((folder / module).parent.glob(f"{Path(module).stem}.*.so")), module
