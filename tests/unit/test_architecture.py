"""The house keeps its shape: who may import whom, where libraries may live, and generated pages are fresh."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("rosa_contract", "rosa_client", "rosa_server", "rosa_sim")
# A frontend is a client of the gateway, so it is built on the client, without which the rest of the server is complete.
FRONTENDS = "rosa_server/frontends"
MAY_IMPORT = {
    FRONTENDS: {"rosa_contract", "rosa_client", "rosa_server"},
    "rosa_contract": {"rosa_contract"},
    "rosa_client": {"rosa_contract", "rosa_client"},
    "rosa_server": {"rosa_contract", "rosa_server"},
    "rosa_sim": set(ROOMS),
}
PURE = (
    "rosa_client/runtime",
    "rosa_client/motion",
    "rosa_client/sensing",
    "rosa_client/operator/",
    "rosa_client/doctor/judges",
    "rosa_client/calibration",
    "rosa_contract",
    "rosa_server/serving/core",
    "rosa_server/timing",
    "rosa_server/plan",
    "rosa_server/frontends/limits.py",
    "rosa_server/frontends/mapping.py",
    "rosa_server/engines/kv_sharing/memory.py",
    "rosa_server/engines/kv_sharing/turns.py",
    "rosa_server/engines/pipelined_decode/pipe.py",
    "rosa_server/scheduler",
    "rosa_server/simulator",
)
IMPURE = {"zmq", "rclpy", "socket", "threading", "asyncio", "torch", "mujoco"}
# Lower rooms first. A room may import the rooms of lower rows and itself; rooms of one row do not know each other.
SCHEDULER = "rosa_server/scheduler"
SCHEDULER_ROWS = (
    ("problem.py", "bisection.py"),
    ("profiles",),
    ("placement",),
    ("search",),
    ("exact", "running"),
    ("choosing",),
    ("commands",),
)
ONLY_IN = {
    "torch": ("rosa_server/models", "rosa_server/engines", "rosa_sim/training"),
    "ortools": ("rosa_server/scheduler",),
    "ray": ("rosa_server/cluster",),
    "rclpy": ("rosa_client", "rosa_sim"),
    "transformers": ("rosa_server/models", "rosa_server/engines"),
}
MAX_MODULES = 16  # of one folder, besides its __init__
USERS = ("benchmarks", "examples", "scripts")  # they use the packages, never the reverse


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file; many tests look at them."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports_of(path: Path) -> tuple[tuple[str, int], ...]:
    """Every imported module's first name, with its line, wherever in the file it stands."""
    return tuple(_imports(nodes_of(path)))


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.split(".")[0], node.lineno


FILES = [(room, path) for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.mark.parametrize("room", ROOMS)
def test_dependencies_run_one_way(room: str) -> None:
    assert any(name == room for name, _ in FILES)
    for owner, path in FILES:
        where = path.relative_to(ROOT)
        if owner != room:
            continue
        within = FRONTENDS if str(where).startswith(f"{FRONTENDS}/") else room
        for module, line in imports_of(path):
            allowed = module not in ROOMS or module in MAY_IMPORT[within]
            assert allowed, f"{where}:{line}: {room} must not import {module}"


def test_a_frontend_uses_the_plain_client_alone_and_only_the_server_starts_frontends() -> None:
    for path, imported in import_graph().items():
        if path.startswith(f"{FRONTENDS}/"):
            client = {other for other in imported if other.startswith("rosa_client/")}
            assert client <= {other for other in client if other.startswith("rosa_client/robot/")}, path
        elif any(other.startswith(f"{FRONTENDS}/") for other in imported):
            attacks = path.startswith(("rosa_sim/fuzz/", "rosa_sim/hostile/"))  # on its parsers
            assert attacks or path in ("rosa_server/serving/server.py", "rosa_server/commands/check.py"), path


def test_decisions_do_no_io() -> None:
    for _, path in FILES:
        where = path.relative_to(ROOT)
        if str(where).startswith(PURE):
            found = IMPURE & {module for module, _ in imports_of(path)}
            assert not found, f"{where} decides, so it must not import {', '.join(found)}"


def test_the_scheduler_reads_no_clock() -> None:
    """Time is an argument; the commands alone hand a clock in."""
    for _, path in FILES:
        where = str(path.relative_to(ROOT))
        if where.startswith(f"{SCHEDULER}/") and not where.startswith(f"{SCHEDULER}/commands/"):
            assert "time" not in {module for module, _ in imports_of(path)}, f"{where} imports time"


def test_rooms_of_the_scheduler_import_lower_rooms_only() -> None:
    row_of = {room: row for row, rooms in enumerate(SCHEDULER_ROWS) for room in rooms}
    seen = set()
    for path, imported in import_graph().items():
        if not path.startswith(f"{SCHEDULER}/") or path == f"{SCHEDULER}/__init__.py":
            continue
        room = path.split("/")[2]
        seen.add(room)
        for other in sorted(imported):
            if other.startswith(f"{SCHEDULER}/") and other.split("/")[2] != room:
                below = row_of[other.split("/")[2]] < row_of[room]
                assert below, f"{path} imports {other}, which is not in a lower room"
    assert seen == set(row_of), "every file of the scheduler is in a room, and every room has files"


def test_the_scheduler_knows_neither_the_core_nor_the_models() -> None:
    """What it shares with them is in rosa_server/plan and rosa_server/timing."""
    inside = ("rosa_server/serving/core/", "rosa_server/models/registry.py")
    for path, imported in import_graph().items():
        if path.startswith(f"{SCHEDULER}/"):
            others = [other for other in imported if other.startswith(inside)]
            assert not others, f"{path} imports {', '.join(others)}"


def test_an_engine_knows_no_model() -> None:
    """A backend hands its network to the engine, which says what it asks of one (`network.py`)."""
    for path, imported in import_graph().items():
        if path.startswith("rosa_server/engines/"):
            models = [other for other in imported if other.startswith("rosa_server/models/")]
            assert not models, f"{path} imports {', '.join(models)}"


def test_serving_knows_no_cluster() -> None:
    """Who starts workers is handed to the server as an object; only the command names one."""
    for path, imported in import_graph().items():
        if path.startswith("rosa_server/serving/"):
            clusters = [other for other in imported if other.startswith("rosa_server/cluster/")]
            assert not clusters, f"{path} imports {', '.join(clusters)}"


def test_no_file_imports_itself_by_a_detour() -> None:
    graph = dict(import_graph())
    while ends := [path for path, imported in graph.items() if not imported & graph.keys()]:
        for path in ends:
            del graph[path]
    assert not graph, f"imports run in a circle among (or above a circle of) {', '.join(sorted(graph))}"


def test_no_folder_imports_itself_by_a_detour() -> None:
    """A folder and its subfolders count as different folders."""
    circles = folders_in_circles()
    assert not circles, f"imports between folders run in a circle: {circles}"


def folders_in_circles() -> list[str]:
    """Folders that import each other, or are above such folders and below others."""
    graph: dict[str, set[str]] = {}
    for path, imported in import_graph().items():
        folder = str(Path(path).parent)
        graph.setdefault(folder, set()).update({str(Path(other).parent) for other in imported} - {folder})
    while True:
        used = {other for imported in graph.values() for other in imported}
        ends = [
            folder for folder, imported in graph.items() if not imported & graph.keys() or folder not in used
        ]
        if not ends:
            return sorted(graph)
        for folder in ends:
            del graph[folder]


def test_a_folder_holds_a_handful_of_modules() -> None:
    modules = Counter(
        str(path.parent.relative_to(ROOT))
        for package in (*ROOMS, *USERS)
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    )
    for folder, number in modules.items():
        assert number <= MAX_MODULES, f"{folder} holds {number} modules: at most {MAX_MODULES}, so split it"


@cache
def import_graph() -> dict[str, set[str]]:
    """File -> the files of the four packages that it imports, wherever in the file."""
    files = {str(path.relative_to(ROOT)) for _, path in FILES}
    graph: dict[str, set[str]] = {}
    for _, path in FILES:
        found: set[str] = set()
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                found |= {file for alias in node.names for file in files_of(alias.name, files)}
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                for alias in node.names:  # a module of a package, or else a name in a module
                    found |= files_of(f"{node.module}.{alias.name}", files) or files_of(node.module, files)
        graph[str(path.relative_to(ROOT))] = found
    return graph


def test_every_name_that_is_imported_is_there() -> None:
    """Also in files that nothing here can load, as their libraries are not installed."""
    paths = [
        path
        for folder in (*ROOMS, "benchmarks", "examples", "tests")
        for path in (ROOT / folder).rglob("*.py")
    ]
    known, missing = set(paths), []
    for path in paths:
        for node in nodes_of(path):
            if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
                continue
            place = ROOT / node.module.replace(".", "/")
            files = (place.with_suffix(".py"), place / "__init__.py")
            source = next((file for file in files if file in known), None)
            for alias in node.names if source is not None else ():
                module = place / alias.name
                if alias.name not in names_in(source) and not (
                    module.with_suffix(".py").exists() or module.is_dir()
                ):
                    missing.append(
                        f"{path.relative_to(ROOT)}:{node.lineno}: {node.module} has no {alias.name}"
                    )
    assert not missing, "\n".join(missing)


@cache
def names_in(path: Path) -> set[str]:
    """What a module defines, imports or sets, wherever in it."""
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def files_of(module: str, files: set[str]) -> set[str]:
    stem = module.replace(".", "/")
    return {f"{stem}.py", f"{stem}/__init__.py"} & files


def test_what_makes_motion_safe_needs_nothing_else_of_the_robot() -> None:
    for path in sorted((ROOT / "rosa_client/motion").rglob("*.py")):
        for module in re.findall(r"^from (rosa_\S+)", path.read_text(), re.MULTILINE):
            allowed = module.startswith(("rosa_client.motion", "rosa_contract"))
            assert allowed, f"{path.relative_to(ROOT)} imports {module}"


def test_heavy_libraries_stay_where_they_are_named() -> None:
    for _, path in FILES:
        where = str(path.relative_to(ROOT))
        for module, line in imports_of(path):
            homes = ONLY_IN.get(module)
            assert homes is None or where.startswith(homes), (
                f"{where}:{line}: {module} belongs in {', '.join(homes)}"
            )


def test_every_timer_is_on_steady_time() -> None:
    """A timer of ROS time stands still when the wall clock is set back."""
    home = "rosa_client/ros/clock.py"
    for _, path in FILES:
        where = str(path.relative_to(ROOT))
        made = [
            node.lineno
            for node in nodes_of(path)
            if isinstance(node, ast.Attribute) and node.attr == "create_timer"
        ]
        assert where == home or not made, f"{where}:{made}: a timer is made by steady_timer in {home}"


def test_packages_use_nothing_of_the_folders_that_use_them() -> None:
    """Neither by an import, nor by a name in a file that imports by name or changes where Python looks."""
    modules = {path.stem for folder in USERS for path in (ROOT / folder).iterdir()} | set(USERS)
    assert "paper" in modules
    for _, path in FILES:
        where = path.relative_to(ROOT)
        found = modules & {module for module, _ in imports_of(path)}
        assert not found, f"{where} imports {', '.join(sorted(found))}"
        nodes = nodes_of(path)
        if any(imports_by_name(node) for node in nodes):
            documented = {node.value for node in nodes if isinstance(node, ast.Expr)}
            words = {
                word
                for node in nodes
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documented
                for word in re.findall(r"\w+", node.value)
            }
            assert not words & {*USERS, "paper"}, f"{where} imports by name and names {words & modules}"


def imports_by_name(node: ast.AST) -> bool:
    """`importlib`, `runpy`, `__import__` or `sys.path`."""
    if isinstance(node, ast.Attribute):
        return node.attr == "path" and isinstance(node.value, ast.Name) and node.value.id == "sys"
    return isinstance(node, ast.Name) and node.id in ("importlib", "import_module", "runpy", "__import__")


def test_the_contract_loads_without_ros_and_without_torch() -> None:
    modules = "rosa_contract.config.factory, rosa_contract.config.robot, rosa_contract.wire.codec"
    code = f"import {modules}, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300, check=True
    )
    assert not {"rclpy", "torch", "zmq"} & set(loaded.stdout.split())


# Modules that turn bytes into code, or that do when they are asked in the wrong way.
UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
SAFE_LOADERS = {  # call -> what it must be told
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
}
NEVER = {
    "eval",
    "exec",
    "compile",
    "yaml.unsafe_load",
    "yaml.full_load",
    "yaml.load_all",
    "os.system",
    "os.popen",
}


def test_nothing_that_is_read_is_unpickled_or_evaluated() -> None:
    """Weights, recordings, files and messages are data."""
    for _, path in FILES:
        where = path.relative_to(ROOT)
        unpicklers = UNPICKLERS & {module for module, _ in imports_of(path)}
        assert not unpicklers, f"{where} imports {', '.join(unpicklers)}"
        for node in nodes_of(path):
            if not isinstance(node, ast.Call):
                continue
            place, called = f"{where}:{node.lineno}", dotted(node.func)
            assert called not in NEVER, f"{place} calls {called}"
            told = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            if called in SAFE_LOADERS:
                word, value = SAFE_LOADERS[called]
                assert told.get(word) is value, f"{place}: {called} needs {word}={value}"
            if called == "yaml.load":
                assert ast.unparse(node.args[1]) == "Loader", f"{place}: only our own loader"
            assert told.get("shell") is not True, f"{place}: a shell"


def dotted(node: ast.AST) -> str:
    """A name, with what it is an attribute of; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{of}.{node.attr}" if (of := dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


def test_generated_pages_are_fresh() -> None:
    command = [sys.executable, "scripts/generate_docs.py", "--check"]
    checked = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, env={"PYTHONPATH": str(ROOT)}
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
