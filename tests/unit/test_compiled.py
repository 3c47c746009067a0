"""The cores compiled: a copy beside the checkout, which the command finds first; the checkout stays as it is."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ONE = "rosa_server/timing/batches.py"
WHERE = (
    "from rosa_server.serving.core.queueing import lengths\nfrom rosa_server.timing import batches\n"
    "print(batches.__file__, lengths.__file__, batches.BatchProfile({1: 10.0}).service_s(1))"
)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("compiled")


def test_the_cores_of_robot_gateway_and_simulator_are_compiled(compiled: ModuleType) -> None:
    found = compiled.cores()
    assert {"rosa_client/runtime/runtime.py", "rosa_server/serving/core/dispatch/core.py"} < set(found)
    assert {"rosa_client/motion/limits.py", "rosa_sim/fleet/simulation.py"} < set(found)
    assert "rosa_server/serving/core/guard/limits.py" not in found
    assert all((ROOT / path).is_file() for path in found)


@pytest.mark.slow
def test_no_class_extends_a_compiled_one_that_may_not_be(compiled: ModuleType) -> None:
    modules = set(compiled.cores(compiled.SERVING))
    classes = {name: classes_of(ROOT / name) for name in modules}
    known = {one.name for found in classes.values() for one in found} - set(compiled.EXTENDED)
    assert {"Lane", "Rule"} <= known
    packages = (path for name in compiled.PACKAGES for path in (ROOT / name).rglob("*.py"))
    plain = [path for path in packages if str(path.relative_to(ROOT)) not in modules]
    named = {one.name for path in plain for one in classes_of(path)}  # by the same name, and another class
    extend = {
        f"{path.name}: {one.name}"
        for path in plain
        for one in classes_of(path)
        for base in one.bases
        if ast.unparse(base).split("[")[0].split(".")[-1] in known - named
    }
    assert not extend, "these could not be imported beside the compiled modules"


def test_no_compiled_class_declares_what_its_base_declares(compiled: ModuleType) -> None:
    """mypyc shows such an attribute to Python's garbage collector twice, which then takes all around it for in use: a
    simulated fleet was never freed."""
    classes = {one.name: one for name in compiled.cores() for one in classes_of(ROOT / name)}

    def bases(one: ast.ClassDef) -> list[ast.ClassDef]:
        named = [classes[name] for base in one.bases if (name := ast.unparse(base).split("[")[0]) in classes]
        return [*named, *(higher for base in named for higher in bases(base))]

    twice = {
        f"{one.name} and {base.name}: {name}"
        for one in classes.values()
        for base in bases(one)
        for name in declared(one) & declared(base)
    }
    assert not twice
    assert any(bases(one) for one in classes.values())


def declared(one: ast.ClassDef) -> set[str]:
    """The attributes that a class gives a type, in its body or as those of `self`."""
    found = {ast.unparse(node.target) for node in one.body if isinstance(node, ast.AnnAssign)}
    typed = {ast.unparse(node.target) for node in ast.walk(one) if isinstance(node, ast.AnnAssign)}
    return found | {name.removeprefix("self.") for name in typed if name.startswith("self.")}


def classes_of(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]


@pytest.mark.slow
def test_a_command_finds_the_compiled_module_first_and_runs_it(compiled: ModuleType, tmp_path: Path) -> None:
    folder = compiled.built([ONE], tmp_path)
    program = f"import compiled, pathlib; compiled.become(['-c', {WHERE!r}], pathlib.Path({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT / "scripts",
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    module, plain, service_s = done.stdout.split()
    assert Path(module).parent.is_relative_to(folder)
    assert Path(module).suffix == ".so"
    assert Path(plain) == folder / "rosa_server/serving/core/queueing/lengths.py"
    assert float(service_s) == pytest.approx(0.01)
    assert compiled.built([ONE], tmp_path) == folder
    assert not list((ROOT / "rosa_server").rglob("*.so"))


def test_a_missing_compiler_is_said(
    compiled: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(compiled.SetupError, match="no C compiler: sudo apt-get install gcc"):
        compiled.built([ONE], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_without_a_command_it_says_how_it_is_used(
    compiled: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiled.main([]) == 2
    assert "python scripts/compiled.py -m rosa_sim.chaos" in capsys.readouterr().out


# -- dataclasses ------------------------------------------------------------------------------------------------------

SOURCE = '''
from __future__ import annotations
from dataclasses import dataclass, field

@dataclass(frozen=True)
class Call:
    """One call."""

    number: int
    name: str = "x"
    seen: list[int] = field(default_factory=list)
    far: float = -1.0

    def twice(self) -> int:
        return 2 * self.number

@dataclass
class Checked:
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("below zero")

@dataclass
class Keyed:
    number: int
    key: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.number, self.number

@dataclass
class Odd:
    number: int = field(default=3, repr=False)

class Plain:
    number: int = 1
'''


def test_dataclasses_are_made_as_before_by_an_init_that_is_written_out(
    compiled: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = importlib.import_module("dataclass_inits").with_inits(SOURCE)
    before: dict[str, Any] = {"__name__": "before"}
    after: dict[str, Any] = {"__name__": "after"}
    for source, names in ((SOURCE, before), (text, after)):
        monkeypatch.setitem(sys.modules, names["__name__"], ModuleType(names["__name__"]))
        exec(source, names)
    assert text.count("def __init__") == 3
    for make in (
        lambda m: m["Call"](1),
        lambda m: m["Call"](1, "y", [3], far=2.0),
        lambda m: replace(m["Call"](1, seen=[2]), number=5),
        lambda m: m["Checked"](4),
        lambda m: m["Keyed"](4),
        lambda m: m["Odd"](),
    ):
        assert repr(make(after)) == repr(make(before))
    assert after["Call"](1) == after["Call"](1) != after["Call"](2)
    assert after["Call"](1).seen is not after["Call"](1).seen
    assert after["Call"](2).twice() == 4
    assert (
        inspect.signature(after["Call"]).parameters.keys()
        == inspect.signature(before["Call"]).parameters.keys()
    )
    with pytest.raises(ValueError, match="below zero"):
        after["Checked"](-1)
    with pytest.raises(TypeError):
        after["Call"]()
