"""ROSA as it is served: `rosa serve` with its gateway and a null worker, and the contract's codec on the client.

`Client` sends raw images; `JpegClient` sends JPEG (encoded beforehand, as a camera driver hands them over), which the
worker decodes.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import zmq

from benchmarks.transport.peers import CAMERAS, SIZE, STATE
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage, encode_image

FACTORY = """
server_cluster: {{num_servers: 1}}
robot_fleet: [{{task: bench, num_robots: 64}}]
bench:
  pipeline: {{action_period_ms: 100}}
  components: {{system1: {{model: null-policy, slo_ms: 10000}}}}
models:
  null-policy: {{backend: "null", inline: {inline}, options: {{images: {images}, state: {{state: {state}}}}}}}
gateway: {{bind: "{address}", metrics_port: 0, busy_poll_us: {busy_poll_us}}}
"""


def serve(address: str, inline: bool = False, busy_poll_us: int = 0) -> None:
    from rosa_server.cli import main

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "factory.yaml"
        images = "{" + ", ".join(f"{camera}: [{SIZE}, {SIZE}]" for camera in CAMERAS) + "}"
        path.write_text(
            FACTORY.format(
                images=images,
                state=STATE,
                address=address,
                inline=str(inline).lower(),
                busy_poll_us=busy_poll_us,
            )
        )
        sys.exit(main(["serve", str(path)]))


class Client:
    encoding = "rgb8"

    def __init__(self, address: str, name: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.connect(address)
        self._ids = itertools.count()
        cameras = {
            camera: m.CameraInfo(height=SIZE, width=SIZE, encoding=self.encoding) for camera in CAMERAS
        }
        self._hello = m.Hello(name + self.encoding, "bench", cameras, {"state": STATE})
        self.ready()

    def ready(self) -> None:
        """Say hello until welcome: after a pause the server has forgotten a silent robot."""
        for _ in range(300):
            self._socket.send_multipart(codec.encode(self._hello))
            answer = codec.decode(self._socket.recv_multipart())
            if isinstance(answer, m.Welcome):
                self._hello = replace(self._hello, token=answer.token)  # without it the name stays taken
                return
            time.sleep(0.1)
        raise TimeoutError(f"the server did not become ready within 30 s: {answer}")

    def _images(self, seen: dict[str, np.ndarray]) -> dict[str, EncodedImage]:
        return {camera: EncodedImage("rgb8", SIZE, SIZE, seen[camera].data.cast("B")) for camera in CAMERAS}

    def call(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        request = m.Request(
            next(self._ids), "system1", 10_000, "", {"state": seen["state"]}, self._images(seen)
        )
        # Copying is cheaper than pyzmq's zero-copy bookkeeping.
        self._socket.send_multipart(codec.encode(request))
        answer = codec.decode(self._socket.recv_multipart(copy=False))
        if not isinstance(answer, m.Response) or answer.output is None:
            raise RuntimeError(f"expected a result, got {answer}")
        return answer.output.arrays["actions"]

    def close(self) -> None:
        self._socket.close()
        self._context.term()


class JpegClient(Client):
    encoding = "jpeg"
    _encoded: dict[str, EncodedImage] | None = None

    def _images(self, seen: dict[str, np.ndarray]) -> dict[str, EncodedImage]:
        if self._encoded is None:
            self._encoded = {camera: encode_image(seen[camera], "jpeg") for camera in CAMERAS}
        return self._encoded
