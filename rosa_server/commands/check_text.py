"""A factory file and a robot file in words, for `rosa check`."""

from __future__ import annotations

from rosa_contract.config.factory import Factory
from rosa_contract.config.models import Model
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.tasks import Component, Pipeline
from rosa_contract.wire.horizon import Horizon


def factory_lines(factory: Factory) -> list[str]:
    cluster, gateway = factory.server_cluster, factory.gateway
    lines = [f"servers: {cluster.num_servers} x {cluster.gpu_type}", f"gateway: {gateway.bind}"]
    for entry in factory.robot_fleet:
        lines.append(f"robots: {entry.num_robots} on {entry.task}")
    for name, task in factory.tasks.items():
        lines.append(f"task {name}: {_pipeline(task.pipeline)}")
        for key, component in task.components.items():
            lines.append(f"  {key}: {_component(component)}")
    used = {component.model for task in factory.tasks.values() for component in task.components.values()}
    for name in sorted(used):
        model = factory.models.get(name)
        how = _model(model) if model else "no entry in `models`: can be planned, not served"
        lines.append(f"model {name}: {how}")
    for name, one in factory.frontends.items():
        host, port = one.address
        lines.append(f"frontend {name}: {one.protocol} on {host}:{port}, robots of {one.task}")
    return lines


def _component(component: Component) -> str:
    words = [component.model, f"{component.slo_ms:g} ms, else {component.fallback}"]
    if component.freq_hz:
        words.insert(1, f"{component.freq_hz:g} Hz")
    if component.confirmations != Component.confirmations:
        words.append(f"counts after {component.confirmations} equal verdicts in a row")
    if component.plans_after:
        often = "" if component.plans_after == 1 else f" made {component.plans_after} times in a row"
        words.append(f"hears of plans{often}")
    return ", ".join(words)


def _pipeline(pipeline: Pipeline) -> str:
    often = f"an action every {pipeline.action_period_ms:g} ms"
    words = [often if pipeline.horizon is None else f"{often} on average, {_horizon(pipeline.horizon)}"]
    if pipeline.execution != Pipeline.execution:
        words.append(pipeline.execution)
    if pipeline.planning != Pipeline.planning:
        words.append(f"planned {pipeline.planning}")
    if pipeline.settle_ms:
        words.append(f"looks {pipeline.settle_ms:g} ms after it")
    if pipeline.share_observation_ms:
        words.append(f"calls within {pipeline.share_observation_ms:g} ms share an observation")
    return ", ".join(words)


def _horizon(horizon: Horizon) -> str:
    given = ((name, getattr(horizon, name)) for name in ("steps", "t", "min", "max"))
    told = "".join(f", {name} {value:g}" for name, value in given if value is not None)
    return f"horizon {horizon.policy}{told}"


def _model(model: Model) -> str:
    engine = f", engine {model.options['engine']}" if "engine" in model.options else ""
    how = f"{model.backend}{engine}, {model.workers} {'worker' if model.workers == 1 else 'workers'}"
    return how if model.adapter is None else f"{how}, adapter {model.adapter.preset or 'of its own'}"


def robot_lines(spec: RobotSpec) -> list[str]:
    speed = f"speed scale {spec.velocity_scale:g}" if spec.velocity_scale != 1 else "full speed"
    lines = [
        f"robot: {spec.name}, {len(spec.joints)} joints, control at {spec.control_rate_hz:g} Hz, {speed}"
    ]
    for name, camera in spec.cameras.items():
        size = f"{camera.width}x{camera.height} px, {camera.encoding}, {camera.rate_hz:g} Hz"
        lens = "calibrated" if camera.intrinsics is not None else "no intrinsics"
        place = f"on {camera.pose.parent}" if camera.pose is not None else "no pose"
        source = f"driver {spec.camera_driver_of(name)}" + (f" at {camera.topic}" if camera.topic else "")
        lines.append(f"camera {name}: {size}, {source}, {lens}, {place}")
    limits = spec.limits
    for index, joint in enumerate(spec.joints):
        lowest, highest = limits.position_min_rad[index], limits.position_max_rad[index]
        rates = (limits.velocity_rad_s, limits.acceleration_rad_s2, limits.jerk_rad_s3)
        units = ("rad/s", "rad/s^2", "rad/s^3")
        most_of = ", ".join(f"{rate[index]:g} {unit}" for rate, unit in zip(rates, units, strict=True))
        lines.append(f"joint {joint}: {lowest:g} .. {highest:g} rad, {most_of}")
    for name, joints in spec.poses.items():
        lines.append(f"pose {name}: {', '.join(f'{angle:g}' for angle in joints)} rad")
    for limb in spec.limbs:
        if limb.name:
            lines.append(f"arm {limb.name}: {', '.join(spec.joints[limb.joints])}")
        fingers = f"{limb.gripper.min_m:g} .. {limb.gripper.max_m:g} m"
        lines.append(
            f"gripper: {fingers if limb.gripper.exists else 'none; an action holds the joints only'}"
        )
        if limb.workspace is None:
            lines.append("workspace: none; joints are limited, the places that the arm reaches are not")
            continue
        sides = zip("xyz", limb.workspace.min_m, limb.workspace.max_m, strict=True)
        lines.append(
            f"workspace: {', '.join(f'{axis} {lowest:g} .. {highest:g}' for axis, lowest, highest in sides)} m"
        )
    lines.append(f"arm driver: {spec.arm_driver}")
    return lines
