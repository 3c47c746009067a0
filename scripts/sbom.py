"""A software bill of materials in CycloneDX 1.6: the pinned packages, and what of others is in the repository.

python scripts/sbom.py [--out .cache/sbom.cdx.json]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

ROOT = Path(__file__).resolve().parents[1]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
LISTS = ("base", "server", "torch", "sim", "no-deps", "ros", "build", "dev")
SHIPPED = (
    ("uPlot", "1.6.32", "MIT", "rosa_server/dashboard/page/uplot/uPlot.iife.min.js", "library"),
    ("panda-flow-policy", "", "Apache-2.0", "rosa_server/models/weights/panda_flow_policy.safetensors", ""),
    ("panda-task-monitor", "", "Apache-2.0", "rosa_server/models/weights/panda_task_monitor.safetensors", ""),
    ("panda-token-policy", "", "Apache-2.0", "rosa_server/models/weights/panda_token_policy.safetensors", ""),
    ("panda-vla", "", "Apache-2.0", "rosa_server/models/weights/panda_vla.safetensors", ""),
)


def pins() -> dict[str, str]:
    """Package -> version, of `requirements/constraints.txt`."""
    return dict(PIN.findall((ROOT / "requirements" / "constraints.txt").read_text()))


def wanted_by() -> dict[str, list[str]]:
    """Package, in lower case -> the lists that name it. A package that no list names came with another one."""
    found: dict[str, list[str]] = {}
    for name in LISTS:
        for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines():
            if package := re.match(r"[A-Za-z0-9._-]+", line):
                found.setdefault(package[0].lower(), []).append(name)
    return found


def licence(package: str) -> str:
    """As the installed package says it; empty: it is not installed here, or says nothing."""
    try:
        said = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        return ""
    classified = [
        one for one in said.get_all("Classifier", []) if one.startswith("License :: OSI Approved ::")
    ]
    short = (said.get("License") or "").strip().splitlines()[:1]
    return str(
        said.get("License-Expression")
        or (short[0] if short and len(short[0]) < 60 else "")
        or "".join(classified[:1])
    ).removeprefix("License :: OSI Approved :: ")


def _package(name: str, version: str, lists: list[str]) -> dict[str, Any]:
    url = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    found: dict[str, Any] = {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}
    # What a server or a robot needs to work, or what only developers need.
    found["scope"] = "required" if set(lists) & {"base", "server", "torch"} else "optional"
    if said := licence(name):
        found["licenses"] = [{"license": {"name": said}}]
    if lists:
        found["properties"] = [{"name": "rosa:requirements", "value": ",".join(lists)}]
    return found


def _part(name: str, version: str, said: str, file: str, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": kind or "machine-learning-model",
        "bom-ref": f"file:{file}",
        "name": name,
        "licenses": [{"license": {"id": said}}],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256((ROOT / file).read_bytes()).hexdigest()}],
        "properties": [{"name": "rosa:file", "value": file}],
    }
    return {**found, "version": version} if version else found


def bill() -> dict[str, Any]:
    """The whole bill. The same pins make the same bill."""
    version = re.search(r'version="([^"]+)"', (ROOT / "setup.py").read_text())
    assert version is not None
    lists = wanted_by()
    packages = [_package(name, pin, lists.get(name.lower(), [])) for name, pin in sorted(pins().items())]
    components = [*packages, *(_part(*part) for part in SHIPPED)]
    content = json.dumps(components, sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "rosa",
                "name": "rosa_client",
                "version": version[1],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=ROOT / ".cache" / "sbom.cdx.json", help="where it is written"
    )
    out: Path = parser.parse_args().out
    found = bill()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n")
    unknown = sum("licenses" not in one for one in found["components"])
    print(f"{out}: {len(found['components'])} components, {unknown} of them say no licence here")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
