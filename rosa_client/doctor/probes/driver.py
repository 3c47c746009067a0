"""Whether the packages that the arm's driver needs are installed here, as the driver itself says."""

from __future__ import annotations

from rosa_client.drivers import DriverError, load
from rosa_client.drivers.arms import ARM_DRIVERS
from rosa_contract.config.robot import RobotSpec


def driver_problem(spec: RobotSpec) -> str:
    """Why the arm's driver cannot be used on this machine; empty when it can. Nothing is connected to."""
    try:
        driver = load("arm", spec.arm_driver, ARM_DRIVERS)
        # Making one that connects later only looks at its settings and packages. Others may open their hardware.
        if hasattr(driver, "connect"):
            driver(spec, 0)
    except DriverError as error:
        return str(error)
    return ""
