"""Give a robot a task over ROS 2 and wait for its end.

python examples/run_task.py panda0 pick_and_place [TIMEOUT_S]
"""

import sys

import rclpy
from rclpy.action import ActionClient
from rosa_interfaces.action import RunTask

from rosa_client.bringup.bringup import prepare_environment

robot, task = sys.argv[1:3]
timeout_s = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0  # 0: no limit
prepare_environment()  # the DDS settings that ROSA's nodes use; not needed with an installed ROS 2
rclpy.init()
node = rclpy.create_node("run_task_example")
client = ActionClient(node, RunTask, f"/{robot}/run_task")
if not client.wait_for_server(timeout_sec=30.0):
    sys.exit(f"no robot {robot} answers in the ROS domain of this shell (ROS_DOMAIN_ID)")


def show(message: RunTask.Impl.FeedbackMessage) -> None:
    now = message.feedback
    print(f"\rattempt {now.attempt}, round {now.round}: {now.state:<20}", end="", flush=True)


sent = client.send_goal_async(RunTask.Goal(task=task, timeout_s=timeout_s), feedback_callback=show)
rclpy.spin_until_future_complete(node, sent)
if not sent.result().accepted:
    sys.exit(f"{robot} rejected the task {task!r}; the log of its runtime node says why")
ended = sent.result().get_result_async()
rclpy.spin_until_future_complete(node, ended)
result = ended.result().result
print(f"\n{result.outcome}: {result.reason} ({result.rounds} rounds, {result.retries} retries)")
rclpy.shutdown()
sys.exit(0 if result.outcome == RunTask.Result.DONE else 1)
