"""A node of a robot as a managed (lifecycle) node: what each transition does, what is logged, and the bond.

| state | what there is |
|---|---|
| unconfigured | nothing but the node and its parameters |
| inactive | files are read and checked, hardware is connected; it is held and watched, and nothing is done with it |
| active | the node does its work |
| finalized | nothing, for good |

A lifecycle manager such as nav2's or `ros2 lifecycle` changes the state; with `autostart`, as the bring-up and the
launch files have it, the node makes itself active, or ends with the reason.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy

from rosa_client.drivers import DriverError
from rosa_client.nodes.base.bond_port import BondPort
from rosa_client.nodes.base.identity import announce
from rosa_client.nodes.base.parameters import Parameter, declare
from rosa_client.nodes.base.readiness import tell_ready
from rosa_client.nodes.base.ros_log import log_to_ros
from rosa_contract.errors import ConfigError
from rosa_contract.keyfile import KeyFileError

AUTOSTART = "autostart"
SUCCESS, FAILURE, ERROR = (
    TransitionCallbackReturn.SUCCESS,
    TransitionCallbackReturn.FAILURE,
    TransitionCallbackReturn.ERROR,
)
# Two event handlers per publisher would be half of what rclpy's executor waits for, and it builds its wait set anew at
# each wake-up. What they report, a subscription with incompatible QoS, is reported by that subscription as well.
UNWATCHED = PublisherEventCallbacks(use_default_callbacks=False)


class StartError(Exception):
    """A node cannot start; the text says why."""


class ManagedNode(LifecycleNode):
    """A node says in four methods what a transition does; whatever `configure` creates on the node ends at clean-up."""

    # What is wrong with files, parameters or hardware: a transition is refused with its text, and can be tried again.
    expected: tuple[type[Exception], ...] = (StartError, ConfigError, KeyFileError, DriverError)

    def __init__(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        super().__init__(name)
        log_to_ros(self.get_logger().name)  # before `start`: what is logged while it configures is news, too
        declare(self, parameters)
        declare(self, {AUTOSTART: Parameter(False, "configure and activate at once, or end with the reason")})
        announce(self)
        self.active = False
        self.holds_nothing = True  # the process may end without closing anything
        self._refusal = ""
        self._failure: Exception | None = None
        self._made: list[
            tuple[Any, Any]
        ] = []  # what `configure` created on the node, and how it is destroyed
        self._bond = BondPort(self)

    def create_publisher(self, *arguments: Any, **options: Any) -> Publisher[Any]:
        """As `Node.create_publisher`, without handlers for QoS events unless the caller names some."""
        return super().create_publisher(*arguments, **{"event_callbacks": UNWATCHED, **options})

    # -- what a node does --------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Read files and connect hardware. Raises one of `expected` for what cannot be used."""

    def activate(self) -> None:
        """Begin to work. Raises one of `expected` when it cannot."""

    def deactivate(self, cause: str, reason: str) -> None:
        """Stop to work, and end what is under way with this cause and reason. Must not raise."""

    def clean_up(self) -> None:
        """Let go of files and hardware, also after a `configure` that was refused half-way. Must not raise."""

    # -- from outside ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Configure and activate when `autostart` says so, as a lifecycle manager would. Raises `StartError`."""
        if not self.get_parameter(AUTOSTART).value:
            self.get_logger().info("unconfigured; waits for a lifecycle manager (autostart is false)")
            return
        if self.trigger_configure() != SUCCESS or self.trigger_activate() != SUCCESS:
            self.close()
            raise self._failure or StartError(self._refusal or "cannot be configured and activated")

    @property
    def settled(self) -> bool:
        """Whether `close` leaves nothing that the executor still has to send."""
        return True

    def close(self) -> None:
        """The process ends: as `deactivate` and `clean_up`, whatever the state."""
        if self.active:
            self._rest("node_ends", f"the {self.get_name()} ends")
        self._let_go()

    # -- transitions -------------------------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._destroy(self._made)
        before = {id(one) for one, _ in self._entities()}
        done = self._try("configure", self.configure)
        self._made = [pair for pair in self._entities() if id(pair[0]) not in before]
        self.holds_nothing = False
        if done != SUCCESS:
            self._let_go()
        return done

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        done = self._try("activate", self.activate)
        if done != SUCCESS:
            self._rest("node_failed", self._refusal)
            return done
        self.active = True
        self._bond.form()
        self.get_logger().info("active")
        done = super().on_activate(state)
        tell_ready()
        return done

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._rest("deactivated", f"the {self.get_name()} was deactivated")
        self.get_logger().info("deactivated: inactive")
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._let_go()
        self.get_logger().info("cleaned up: unconfigured")
        return SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        if self.active:
            self._rest("shut_down", f"the {self.get_name()} was shut down")
        self._let_go()
        self.get_logger().info("shut down: finalized")
        return SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """A transition raised what nobody expected: nothing of it may stay."""
        self._rest("node_failed", f"the {self.get_name()} failed")
        self._let_go()
        self.get_logger().error("a transition failed: unconfigured")
        return SUCCESS

    def _try(self, name: str, call: Any) -> TransitionCallbackReturn:
        """rclpy would swallow an exception without a word."""
        self._refusal, self._failure = "", None
        try:
            call()
        except self.expected as error:
            self._refusal = str(error)
            self.get_logger().error(f"cannot {name}: {self._refusal}")
            return FAILURE
        except Exception as error:
            self._failure = error
            self.get_logger().error(f"cannot {name}: {traceback.format_exc()}")
            return ERROR
        return SUCCESS

    def _rest(self, cause: str, reason: str) -> None:
        self.active = False
        self._bond.end()
        self.deactivate(cause, reason)

    def _let_go(self) -> None:
        self.clean_up()
        latched = [pair for pair in self._made if is_latched(pair[0])]
        self._destroy([pair for pair in self._made if pair not in latched])
        self._made = latched  # what was said last is heard until the node is configured anew
        self.holds_nothing = True

    def _destroy(self, made: list[tuple[Any, Any]]) -> None:
        for entity, destroy in made:
            destroy(entity)

    def _entities(self) -> list[tuple[Any, Any]]:
        return [
            *[(one, self.destroy_timer) for one in self.timers],
            *[(one, self.destroy_subscription) for one in self.subscriptions],
            *[(one, self.destroy_service) for one in self.services],
            *[(one, self.destroy_client) for one in self.clients],
            *[(one, self.destroy_publisher) for one in self.publishers],
        ]


def is_latched(entity: Any) -> bool:
    """Whether it is a publisher whose last messages whoever comes later still gets."""
    qos = entity.qos_profile if isinstance(entity, Publisher) else None
    return qos is not None and qos.durability == DurabilityPolicy.TRANSIENT_LOCAL
