"""The emergency stop of this robot's arm and its release, asked for by the runtime on behalf of a person at the server.

The same services and the same topic as the operator's panel uses: the arm node judges, and it records a release itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.client import Client
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile
from rosa_interfaces.srv import ReleaseEmergencyStop
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from rosa_client.motion.refusal import Refusal
from rosa_contract.wire.status import EMERGENCY_STOP

Answered = Callable[[Refusal | None], None]
NO_ANSWER = Refusal("no_arm", "the arm node of this robot does not answer; is it running?")
SENT = Refusal("not_confirmed", "the stop was sent, but the arm node of this robot does not confirm it")


class ArmDoor:
    """Clients of the arm node's services. Answers come in the executor's thread."""

    def __init__(self, node: LifecycleNode) -> None:
        self._stop: Client[Any, Any] = node.create_client(Trigger, "arm_node/emergency_stop")
        self._release: Client[Any, Any] = node.create_client(
            ReleaseEmergencyStop, "arm_node/release_emergency_stop"
        )
        self._topic = node.create_publisher(Bool, "emergency_stop", QoSProfile(depth=10))

    def ask(self, choice: str, decided_by: str, why: str, answered: Answered) -> None:
        """`choice`: one of `status.ARM_CHOICES`. `answered` is called once; never, if the arm node ends meanwhile."""
        if choice == EMERGENCY_STOP:
            self._topic.publish(Bool(data=True))  # also without a service that is found yet
            self._call(self._stop, Trigger.Request(), SENT, answered)
        else:
            request = ReleaseEmergencyStop.Request(decided_by=decided_by, why=why)
            self._call(self._release, request, NO_ANSWER, answered)

    def _call(self, client: Any, request: Any, without: Refusal, answered: Answered) -> None:
        if not client.service_is_ready():
            answered(without)
            return

        def done(future: Any) -> None:
            answer = future.result()
            if answer is None:
                answered(without)
            elif isinstance(answer, Trigger.Response):
                answered(None if answer.success else Refusal("arm_refused", answer.message))
            else:
                answered(None if answer.accepted else Refusal("arm_refused", answer.reason))

        client.call_async(request).add_done_callback(done)
