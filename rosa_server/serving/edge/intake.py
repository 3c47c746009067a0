"""Reads the robots' socket, one message at a time, and never more frames of it than a message may have.

What a message has beyond that is thrown away as cheaply as Python can, a part at a time, so that answers still leave
in between. A ROUTER gives no other message before the last frame of the one that it has begun.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import zmq

from rosa_contract.wire.codec import MAX_IMAGES
from rosa_server.serving.edge.doorman import Doorman

NOBLOCK = int(zmq.NOBLOCK)
MAX_FRAMES = MAX_IMAGES + 2  # ZeroMQ's name of the connection, the header, the images
FLOOD_FRAMES = 1000  # nobody sends these by mistake: its connection ends at once
AT_ONCE = 4096  # frames thrown away before the gateway does something else, about 3 ms
FLOOD = 1e6  # as many unreadable messages


class Message(NamedTuple):
    """What was read of a message."""

    frames: list[zmq.Frame]  # the first ones; the very first names the connection
    frame_count: int  # of all its frames
    size: int  # bytes of all
    began_s: float  # when its reading began, in CPU time of the thread that reads and handles it

    def put_off(self) -> Message:
        """To be handled later, by `taken_up`: what was spent on it until now stays with it."""
        return self._replace(began_s=self.began_s - time.thread_time())

    def taken_up(self) -> Message:
        """A message that was `put_off`, as if it had come just now."""
        return self._replace(began_s=self.began_s + time.thread_time())


class Intake:
    """What the gateway gets to see of the robots' messages."""

    def __init__(self, socket: zmq.Socket[bytes], doorman: Doorman) -> None:
        self._socket, self._doorman = socket, doorman
        self._too_many: list[zmq.Frame] = []  # the first frames of a message that is being thrown away
        self._count = self._size = 0  # of its frames
        self._spent_s = 0.0  # on what was thrown away
        self._flooded = False
        self._messages = 0

    def since_last(self) -> int:
        """How many messages were read since this was asked last."""
        messages, self._messages = self._messages, 0
        return messages

    def read(self, now_s: float) -> Message | None:
        """The next one. None when it is still being thrown away, or its connection has ended."""
        began_s = time.thread_time() - self._spent_s
        message = self._throw_away(now_s) if self._too_many else self._take()
        if message is None:
            self._spent_s = time.thread_time() - began_s
            return None
        self._spent_s = 0.0
        self._messages += 1
        if self._doorman.ignores(now_s, message[0][0]):
            return None
        return Message(*message, began_s)

    def handled(self, now_s: float, message: Message, answer_s: float, bad: float) -> None:
        """A message has been handled; its answer will take `answer_s`. `bad`: see `Connections.heard`."""
        spent_s = time.thread_time() - message.began_s + answer_s
        self._doorman.heard(now_s, message.frames[0], message.size, message.frame_count, spent_s, bad)

    def _take(self) -> tuple[list[zmq.Frame], int, int] | None:
        receive = self._socket.recv
        frames = [receive(NOBLOCK, copy=False)]
        while frames[-1].more:  # half the cost of recv_multipart, which asks the socket after each frame
            if len(frames) > MAX_FRAMES:
                self._too_many, self._count = frames, len(frames)
                self._size, self._flooded = sum(map(len, frames)), False
                return None
            frames.append(receive(NOBLOCK, copy=False))
        return frames, len(frames), sum(map(len, frames))

    def _throw_away(self, now_s: float) -> tuple[list[zmq.Frame], int, int] | None:
        receive, size, frame = self._socket.recv, 0, self._too_many[-1]
        for _ in range(AT_ONCE):
            frame = receive(NOBLOCK, copy=False)
            size += len(frame)
            self._count += 1
            if not frame.more:
                break
        self._size += size
        if self._count > FLOOD_FRAMES and not self._flooded:
            self._flooded = True
            self._doorman.heard(now_s, self._too_many[0], 0, 0, 0.0, FLOOD)
        if frame.more:
            return None
        frames, self._too_many = self._too_many, []
        return frames, self._count, self._size
