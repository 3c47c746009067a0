"""RViz's panel: its logic is compiled and run without Qt and ROS; what it names in ROS exists. The widget never ran."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PANEL = ROOT / "ros_ws" / "rviz" / "rosa_rviz"
INTERFACES = ROOT / "ros_ws" / "src" / "rosa_interfaces"
WIDGET = (PANEL / "src" / "operator_panel.cpp").read_text()
HEADER = (PANEL / "include" / "rosa_rviz" / "operator_panel.hpp").read_text()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler: apt-get install g++")
def test_every_behaviour_of_its_logic_holds(tmp_path: Path) -> None:
    program = tmp_path / "test_panel_model"
    sources = [PANEL / "src" / "panel_model.cpp", PANEL / "test" / "test_panel_model.cpp"]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{PANEL / 'include'}"]
    compiled = subprocess.run(
        ["g++", *flags, "-o", program, *sources], capture_output=True, text=True, timeout=300
    )
    assert compiled.returncode == 0, compiled.stderr
    ran = subprocess.run([program], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout


def test_its_plugin_is_the_class_that_the_library_exports() -> None:
    [entry] = ET.parse(PANEL / "plugins_description.xml").getroot()
    assert f"PLUGINLIB_EXPORT_CLASS({entry.get('type')}, {entry.get('base_class_type')})" in WIDGET
    assert f"class {str(entry.get('type')).split('::')[1]} : public {entry.get('base_class_type')}" in HEADER
    lists = (PANEL / "CMakeLists.txt").read_text()
    assert "pluginlib_export_plugin_description_file(rviz_common plugins_description.xml)" in lists
    package = ET.parse(PANEL / "package.xml").getroot()
    depends = {str(one.text) for one in package if one.tag.endswith("depend")}
    assert set(re.findall(r"find_package\((\w+)", lists)) == depends
    included = set(re.findall(r"#include <(\w+)/", WIDGET + HEADER))
    assert included <= depends


def test_topics_and_services_are_those_of_the_nodes() -> None:
    nodes = "\n".join(path.read_text() for path in (ROOT / "rosa_client" / "nodes").rglob("*.py"))
    for topic in ("robot_status", "arm_status", "operator_alert"):
        assert f'"/{topic}"' in WIDGET
        assert re.search(rf'create_publisher\(\s*\w+,\s*"{topic}"', nodes), topic
    assert 'name("/emergency_stop")' in WIDGET and '"emergency_stop"' in nodes
    for node, service in re.findall(r'name\("/(\w+_node)/(\w+)"\)', WIDGET):
        assert f'"~/{service}"' in nodes, f"no node has a service {service}"
        assert (ROOT / "rosa_client" / "nodes" / "robot" / f"{node}.py").exists()


@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        ("msg/RobotStatus", "status"),
        ("msg/ArmStatus", "status"),
        ("msg/OperatorAlert", "alert"),
        ("srv/OperatorDecision", "request"),
        ("srv/ReleaseEmergencyStop", "request"),
    ],
)
def test_fields_are_those_of_the_messages(kind: str, variable: str) -> None:
    """Every member that the widget uses of a message in the function in which it stands."""
    name = kind.split("/")[1]
    ending = "srv" if kind.startswith("srv") else "msg"
    text = (INTERFACES / f"{kind}.{ending}").read_text()
    fields = {words[1] for line in text.splitlines() if len(words := line.split("#")[0].split()) == 2}
    parts = re.findall(rf"{name}(?: & {variable}\)|::Request>\(\);)(.*?)\}}\);", WIDGET, re.DOTALL)
    assert parts, f"the widget does not use {name}"
    used = {field for part in parts for field in re.findall(rf"\b{variable}(?:\.|->)(\w+)", part)}
    assert used and used <= fields
