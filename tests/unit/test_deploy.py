"""What `deploy/`, the CI definition and the bill of materials hold: well-formed, and only what exists."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import page_commands
import sbom

ROOT = Path(__file__).parents[2]

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
CONTAINERS = sorted((DEPLOY / "container").glob("*.Containerfile"))
UNIT_KEYS = {
    "Unit": {"Description", "Wants", "After"},
    "Service": {
        *(
            "User",
            "WorkingDirectory",
            "ExecStart",
            "Environment",
            "KillMode",
            "KillSignal",
            "TimeoutStopSec",
            "Restart",
            "RestartSec",
        ),
        *("LimitRTPRIO", "LimitMEMLOCK"),
    },
    "Install": {"WantedBy"},
}
INSTRUCTIONS = {
    "FROM",
    "RUN",
    "WORKDIR",
    "COPY",
    "USER",
    "EXPOSE",
    "STOPSIGNAL",
    "ENTRYPOINT",
    "CMD",
    "SHELL",
    "ARG",
}


def sections(unit: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit.read_text().replace("\\\n", " "))
    return parser


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_has_known_keys_and_starts_what_exists(unit: Path) -> None:
    parser = sections(unit)
    assert set(parser.sections()) == set(UNIT_KEYS)
    for section in parser.sections():
        assert set(parser[section]) <= UNIT_KEYS[section], section
    start = parser["Service"]["ExecStart"]
    inner = re.search(r"exec (ros2 launch [^']*)'", start)
    for words in page_commands.commands(f"```sh\n{inner[1] if inner else start}\n```\n"):
        page_commands.check(words)


def test_the_units_of_the_page_are_the_files() -> None:
    shown = re.findall(r"```ini\n(.*?)```", (ROOT / "docs" / "systemd.md").read_text(), re.DOTALL)
    assert shown == [
        (DEPLOY / "systemd" / f"{name}.service").read_text() for name in ("rosa-server", "rosa-robot@")
    ]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_nothing_wrong(tmp_path: Path, unit: Path) -> None:
    """With a program that is here in the place of ours, which systemd would look for."""
    copy = tmp_path / unit.name.replace("@", "@panda0")
    copy.write_text(
        unit.read_text().replace("/opt/rosa/.venv/bin/rosa", "/bin/true").replace("User=rosa\n", "")
    )
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    said = [line for line in ended.stderr.splitlines() if copy.name in line]
    assert said == []


def instructions(file: Path) -> list[tuple[str, str]]:
    lines = [
        line
        for line in file.read_text().replace("\\\n", " ").splitlines()
        if line and not line.startswith("#")
    ]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


@pytest.mark.parametrize("file", CONTAINERS, ids=lambda file: file.name)
def test_a_container_file_copies_what_exists_and_starts_what_exists(file: Path) -> None:
    found = instructions(file)
    assert found[0][0] == "FROM" and ":latest" not in found[0][1]
    assert {name for name, _ in found} <= INSTRUCTIONS
    for name, text in found:
        if name == "COPY":
            assert (ROOT / text.split()[0]).exists(), text
    started = {name: json.loads(text) for name, text in found if name in ("ENTRYPOINT", "CMD")}
    words = [*started.get("ENTRYPOINT", []), *started["CMD"]]
    page_commands.check(words[1:] if words[0].endswith("robot_entry") else words)


def test_images_get_no_environments_caches_and_runs() -> None:
    left_out = (ROOT / ".dockerignore").read_text().splitlines()
    folders = [
        line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.endswith("/")
    ]
    kept = [one for one in folders if not any(fnmatch(one, line.removeprefix("**/")) for line in left_out)]
    assert kept == []


def test_the_composed_services_start_what_exists() -> None:
    composed = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())
    for service in composed["services"].values():
        page_commands.check(["rosa", *service["command"]])
        for volume in service["volumes"]:
            name = volume.partition(":")[0]
            assert name.startswith("/") or name in composed["volumes"]
    file = composed["services"]["server"]["build"]["dockerfile"]
    assert (ROOT / file).is_file()


def test_rays_cluster_is_one_that_rosa_accepts() -> None:
    cluster = yaml.safe_load((DEPLOY / "ray" / "cluster.yaml").read_text())
    # The keys of Ray's own schema (autoscaler/ray-schema.json, 2.60).
    assert set(cluster) <= {
        *(
            "cluster_name",
            "provider",
            "auth",
            "min_workers",
            "max_workers",
            "upscaling_speed",
            "idle_timeout_minutes",
        ),
        *("setup_commands", "head_start_ray_commands", "worker_start_ray_commands"),
    }
    assert cluster["max_workers"] == len(cluster["provider"]["worker_ips"])
    starts = [*cluster["head_start_ray_commands"], *cluster["worker_start_ray_commands"]]
    assert all("ray.env" in line for line in starts if "ray start" in line), "no cluster without a token"
    assert "RAY_AUTH_MODE=token" in (DEPLOY / "ray" / "ray.env").read_text()


def test_a_public_host_runs_the_gate_itself() -> None:
    workflow: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "gate.yml").read_text())
    [job] = workflow["jobs"].values()
    runs = [step["run"] for step in job["steps"] if "run" in step]
    assert ".ci/run" in runs
    for line in runs:
        for words in page_commands.commands(f"```sh\n{line}\n```\n"):
            page_commands.check(words)
    assert workflow["permissions"] == {"contents": "read"}
    assert all(re.search(r"@v\d+$", step["uses"]) for step in job["steps"] if "uses" in step)


def test_the_bill_of_materials_names_every_pinned_package_and_what_ships() -> None:
    bill = sbom.bill()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    named = {one["name"]: one for one in bill["components"]}
    assert {name for name, one in named.items() if "purl" in one} == set(sbom.pins())
    references = [one["bom-ref"] for one in bill["components"]]
    assert len(references) == len(set(references))
    assert named["numpy"]["scope"] == "required" and named["pytest"]["scope"] == "optional"
    assert "BSD" in named["numpy"]["licenses"][0]["license"]["name"]
    assert sbom.bill() == bill, "the same pins make the same bill"


def test_every_shipped_file_of_others_and_every_weight_is_in_the_bill() -> None:
    weights = {path.name for path in (ROOT / "rosa_server/models/weights").glob("*.safetensors")}
    assert weights <= {Path(file).name for _, _, _, file, _ in sbom.SHIPPED}
    fonts = [
        path
        for path in ROOT.glob("rosa_*/**/*")
        if path.suffix in (".ttf", ".otf", ".woff", ".woff2", ".stl")
    ]
    assert fonts == [], "docs/licences.md says that there are no fonts and meshes"


# Of KubeRay's CRD ray.io_rayclusters, v1, of 19 August 2026 (after v1.7.0), against whose schema the whole manifest was
# checked once.
RAY_CLUSTER = {
    "spec": {
        *("authOptions", "autoscalerOptions", "enableInTreeAutoscaling", "gcsFaultToleranceOptions"),
        *("headGroupSpec", "headServiceAnnotations", "historyServerOptions", "managedBy", "networkPolicy"),
        *("rayVersion", "suspend", "tlsOptions", "upgradeStrategy", "workerGroupSpecs"),
    },
    "head": {
        *("enableIngress", "headService", "ingressOptions", "labels", "rayStartParams", "resources"),
        *("serviceType", "template"),
    },
    "worker": {
        *(
            "groupName",
            "idleTimeoutSeconds",
            "labels",
            "maxReplicas",
            "minReplicas",
            "numOfHosts",
            "priority",
        ),
        *("rayStartParams", "replicas", "resources", "scaleStrategy", "suspend", "template"),
    },
}
CONTAINER = {"name", "image", "command", "args", "env", "ports", "resources", "volumeMounts"}
POD = {"terminationGracePeriodSeconds", "containers", "volumes"}


def test_kuberays_cluster_has_known_fields_a_token_and_starts_what_exists() -> None:
    cluster, service = yaml.safe_load_all((DEPLOY / "kuberay" / "rosa.yaml").read_text())
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    spec, head = cluster["spec"], cluster["spec"]["headGroupSpec"]
    assert set(spec) <= RAY_CLUSTER["spec"] and set(head) <= RAY_CLUSTER["head"]
    assert spec["authOptions"] == {"mode": "token"}, "ROSA refuses a cluster without"
    for group in (head, *spec["workerGroupSpecs"]):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        pod = group["template"]["spec"]
        assert set(pod) <= POD
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert set(container) <= CONTAINER
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            assert "$KUBERAY_GEN_RAY_START_CMD" in container["args"][0], (
                "KubeRay's own command is not run else"
            )
            assert {"name", "value"} <= set(container["env"][-1]), "all work on without the head"
    for group in spec["workerGroupSpecs"]:
        assert set(group) <= RAY_CLUSTER["worker"]
        assert {"groupName", "minReplicas", "maxReplicas", "template"} <= set(group)
    text = head["template"]["spec"]["containers"][0]["args"][0]
    started = text.partition("exec ")[2].replace('"$POD_IP:6379"', "10.0.0.1:6379").split()
    page_commands.check(started)
    ports = {one["name"]: one["containerPort"] for one in head["template"]["spec"]["containers"][0]["ports"]}
    (port,) = service["spec"]["ports"]
    assert port["port"] == ports[port["targetPort"]] and str(port["port"]) in text
    assert service["spec"]["selector"]["ray.io/cluster"] == cluster["metadata"]["name"]
    assert cluster["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
    pinned = (ROOT / "requirements" / "ray-test.txt").read_text()
    assert f"ray=={spec['rayVersion']}" in pinned
