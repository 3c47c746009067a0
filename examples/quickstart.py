"""Ask a ROSA server for actions from plain Python, without ROS and without a robot."""

import sys
import time

import numpy as np

from rosa_client.link import GatewayLink
from rosa_contract.images import encode_image
from rosa_contract.messages import CameraInfo, Hello, Request

endpoint = sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:5570"
hello = Hello("my_robot", "pick", {"front": CameraInfo(96, 96, "jpeg")}, {"joint_position": 7})
link = GatewayLink(endpoint, hello)
until_s = time.monotonic() + 30
while not link.ready:  # poll says hello until the server welcomes this robot
    link.poll(0.1, time.monotonic())
    if time.monotonic() > until_s:
        sys.exit(f"not welcomed within 30 s: {link.reason}")

for number in range(5):
    image = np.zeros((96, 96, 3), np.uint8)  # your camera: (height, width, 3) RGB
    state = {"joint_position": np.zeros(7, np.float32)}  # your robot: rad
    sent_s = time.monotonic()
    link.send(Request(number, "system1", 500, "pick the cube", state, {"front": encode_image(image)}), sent_s)
    answers = []
    while not answers and time.monotonic() - sent_s < 0.5:  # a later answer must not be used
        answers = [a for a in link.poll(0.01, time.monotonic()) if a.request_id == number]
    if answers and answers[0].output:
        took_ms = 1000 * (time.monotonic() - sent_s)
        print(f"actions {answers[0].output.arrays['actions'].shape} in {took_ms:.1f} ms")
    else:
        print(f"no actions: {answers[0].status + ': ' + answers[0].reason if answers else 'deadline missed'}")
link.close()
