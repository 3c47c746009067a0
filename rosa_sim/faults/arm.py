"""The arm node with a driver that fails on command: the product's own node around a faulty driver.

Run like the arm node, with one more parameter: `-p control:=FILE`. `{"fault": TEXT}` in the file is what the driver
then says it cannot move for; it ignores setpoints meanwhile, as an arm with a tripped brake does.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from rosa_client.drivers import arms
from rosa_client.drivers.arms import ArmDriver, ArmState
from rosa_client.motion.arm_orders import Command
from rosa_client.nodes.robot import arm_node
from rosa_contract.config.robot import RobotSpec
from rosa_sim.faults.switch import Switch

OPTION = "control:="


class FaultyArm:
    """Any arm driver, until the switch says that it has a fault."""

    def __init__(self, inner: ArmDriver, switch: Switch) -> None:
        self._inner = inner
        self._switch = switch
        self._fault = ""  # as last reported: the arm moves only after the end of the fault was reported

    def __getattr__(self, name: str) -> Any:
        """Attributes that only some drivers have, such as the `scene` of a simulated one."""
        return getattr(self._inner, name)

    def read(self) -> ArmState:
        self._fault = str(self._switch.state().get("fault", ""))
        return replace(self._inner.read(), fault=self._fault)

    def track(self, command: Command) -> None:
        if self._fault:
            self.idle(command.within_s)
        else:
            self._inner.track(command)

    def idle(self, period_s: float) -> None:
        self._inner.idle(period_s)

    def close(self) -> None:
        self._inner.close()


def main() -> None:
    given = [argument.removeprefix(OPTION) for argument in sys.argv if argument.startswith(OPTION)]
    if len(given) != 1:
        print(f"expected one -p {OPTION}FILE, got {len(given)}", file=sys.stderr)
        sys.exit(2)
    switch = Switch(given[0])

    def create(name: str, spec: RobotSpec, seed: int) -> ArmDriver:
        return FaultyArm(arms.create_arm(name, spec, seed), switch)

    arm_node.create_arm = create
    arm_node.main()


if __name__ == "__main__":
    main()
