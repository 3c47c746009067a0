"""Two servers, then two gateways of one schedule, and a robot that knows both: on two addresses of one machine."""

from __future__ import annotations

import json

from tests.reader import Reader

# What two machines would have each: no port for metrics, as both would take the same.
FLEET = """
server_cluster: {num_servers: 4, gpu_type: NVIDIA H200}
gateway: {metrics_port: 0}
robot_fleet: [{task: pick, num_robots: 4}]
pick:
  pipeline: {action_period_ms: 400}
  components:
    system1: {model: nvidia/GR00T-N1.6-3B, slo_ms: 500, fallback: stop_and_resend}
models:
  nvidia/GR00T-N1.6-3B: {backend: emulated}
"""
BOTH = "gateway:=tcp://10.0.0.1:5570,tcp://10.0.0.2:5570"
READY = "ROSA is ready"
SECOND = "env XDG_RUNTIME_DIR=second rosa serve factory.yaml"  # the second machine has a folder of its own for sockets


def test_a_robot_that_knows_two_gateways(reader: Reader) -> None:
    (reader.folder / "factory.yaml").write_text(FLEET)
    (reader.folder / "my_robot.yaml").write_text("extends: rosa:panda.yaml\n")
    (reader.folder / "second").mkdir(mode=0o700)
    reader.type("rosa keys first --robot panda1\n")
    reader.names[f"{BOTH} keys:=keys"] = f"{BOTH} keys:=first"  # the page goes on to other keys
    reader.start("rosa serve factory.yaml --bind tcp://10.0.0.1:5570 --keys first", READY)
    assert "running panda1" in reader.do("cluster")
    servers = json.loads((reader.folder / "schedule.json").read_text())["servers"]
    assert [one["id"] for one in servers] == ["gpu0", "gpu1", "gpu2", "standby0"]
    reader.start(f"{SECOND} --schedule schedule.json --keys keys --nodes nodes.yaml --node b", READY)
    reader.end("python -m rosa_client.bringup")
    robot = "python -m rosa_client.bringup namespace:=panda1 robot:=my_robot.yaml config:=factory.yaml"
    reader.start(f"{robot} {BOTH} keys:=keys", "welcomed by tcp://10.0.0.")
