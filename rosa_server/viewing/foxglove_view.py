"""A recording, or a running server, for Foxglove and Lichtblick: their SDK's server, on this machine alone.

It has no accounts and no tokens, so it listens on loopback only; from another machine, `ssh -L` brings it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rosa_contract.say import say
from rosa_server.bags.records import Record, Track, records, span
from rosa_server.dashboard.feed import Feed
from rosa_server.dashboard.model import FleetModel
from rosa_server.dashboard.pictures import MAX_ROBOTS, clean_jpegs
from rosa_server.viewing.errors import ViewError
from rosa_server.viewing.live import News, pictures_topic, schema_of
from rosa_server.viewing.player import RecordingPlayer

HOST = "127.0.0.1"
STEP_S = 0.01
TELL_EVERY_S = 0.25
LOOK_EVERY_S = 1.0
LEARN_EVERY_S = 10.0  # how often a robot is asked for its cameras before one is known
PACKAGE = "foxglove-sdk is not installed here: pip install foxglove-sdk"


def _library() -> Any:
    try:
        import foxglove
        import foxglove.websocket
    except ImportError:
        raise ViewError("needs_package", PACKAGE) from None
    return foxglove


def _served(foxglove: Any, port: int, **options: Any) -> Any:
    try:
        return foxglove.start_server(
            host=HOST, port=port, capabilities=[foxglove.websocket.Capability.Time], **options
        )
    except (OSError, RuntimeError) as error:
        words = f"--port {port}: {error}; name another port, or 0 for any"
        raise ViewError("cannot_listen", words) from None


def _invite(what: str, port: int, layout: Path) -> None:
    say(f"{what}: open a connection to ws://{HOST}:{port} in Foxglove or Lichtblick")
    say(f"a layout to import: {layout}; Ctrl-C ends it")


# -- recordings -------------------------------------------------------------------------------------------------------


class Playback:
    """Plays one recording to whoever looks; their buttons for play, pause, speed and time work."""

    def __init__(self, foxglove: Any, player: RecordingPlayer, loop: bool) -> None:
        self._foxglove, self._loop = foxglove, loop
        self._context = foxglove.Context()
        self._channels: dict[Track, Any] = {}
        self._player, self._lock = player, threading.Lock()
        self._shown: list[Record] = []  # what a viewer has to see after a seek
        self._told_end = self._begun = False
        self._server: Any = None
        player.pause(time.monotonic())  # until somebody looks

    def start(self, tracks: set[Track], port: int, name: str) -> int:
        """Returns the port."""
        for track in sorted(tracks, key=lambda track: track.topic):
            self._channel(track)
        span_ns = (self._player.start_ns, self._player.end_ns)
        listener = {"server_listener": self, "playback_time_range": span_ns}
        self._server = _served(self._foxglove, port, name=name, context=self._context, **listener)
        return int(self._server.port)

    def step(self, now_s: float) -> None:
        """Hand over what is due."""
        with self._lock:
            due = [*self._shown, *(self._player.due(now_s) if self._player.playing else [])]
            self._shown = []
            at_ns, ended = self._player.at_ns(now_s), self._player.ended(now_s)
            if ended and self._loop:
                self._shown = self._player.seek(now_s, self._player.start_ns)
        for record in due:
            self._channel(record.track).log(record.data, log_time=record.time_ns)
        self._server.broadcast_time(at_ns)
        if ended != self._told_end:
            self._told_end = ended
            with self._lock:
                state = self._state(now_s, did_seek=False, request_id=None)
            self._server.broadcast_playback_state(state)

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def _channel(self, track: Track) -> Any:
        if track not in self._channels:
            kind, encoding = track.kind, track.definition_encoding
            schema = self._foxglove.Schema(name=kind, encoding=encoding, data=track.definition)
            options = {"schema": schema, "message_encoding": track.encoding, "context": self._context}
            self._channels[track] = self._foxglove.Channel(track.topic, **options)
        return self._channels[track]

    # -- what viewers say; on the library's own threads ---------------------------------------------------------------

    def on_subscribe(self, client: Any, channel: Any) -> None:
        with self._lock:
            if not self._begun:
                self._begun = True
                self._player.play(time.monotonic())

    def on_playback_control_request(self, request: Any) -> Any:
        now_s = time.monotonic()
        with self._lock:
            if request.seek_time is not None:
                self._shown = self._player.seek(now_s, request.seek_time)
            if request.playback_speed and request.playback_speed > 0:
                self._player.set_speed(now_s, request.playback_speed)
            command = self._foxglove.websocket.PlaybackCommand
            if request.playback_command == command.Play:
                self._player.play(now_s)
            elif request.playback_command == command.Pause:
                self._player.pause(now_s)
            return self._state(now_s, request.seek_time is not None, request.request_id)

    def __getattr__(self, name: str) -> Any:
        """Of a listener's other events none matters here."""
        if name.startswith("on_"):
            return lambda *_: None
        raise AttributeError(name)

    def _state(self, now_s: float, did_seek: bool, request_id: str | None) -> Any:
        kinds = self._foxglove.websocket.PlaybackStatus
        player = self._player
        status = kinds.Ended if player.ended(now_s) else kinds.Playing if player.playing else kinds.Paused
        return self._foxglove.websocket.PlaybackState(
            status, player.at_ns(now_s), player.speed, did_seek, request_id
        )


def view_recording(path: Path, port: int, loop: bool, layout: Path) -> int:
    """Until Ctrl-C. Raises `ViewError` and `RecordingError`."""
    foxglove = _library()
    start_ns, end_ns = span(path)
    tracks = {record.track for record in records(path)}
    player = RecordingPlayer(lambda: records(path), start_ns, end_ns, time.monotonic())
    playback = Playback(foxglove, player, loop)
    port = playback.start(tracks, port, path.name)
    _invite(f"{path}, {(end_ns - start_ns) / 1e9:.0f} s, {len(tracks)} topics", port, layout)
    try:
        while True:
            playback.step(time.monotonic())
            time.sleep(STEP_S)
    finally:
        playback.stop()


# -- a running server -------------------------------------------------------------------------------------------------


class LiveChannels:
    """The topics of a running server; each begins with its first message."""

    def __init__(self, foxglove: Any) -> None:
        self._foxglove = foxglove
        self._context = foxglove.Context()
        self._channels: dict[str, Any] = {}
        self._pictures: dict[tuple[str, str], Any] = {}
        self._sent: dict[tuple[str, str], float] = {}  # when the picture was heard that was handed on last

    def start(self, port: int, name: str) -> Any:
        return _served(self._foxglove, port, name=name, context=self._context)

    def tell(self, topic: str, message: Mapping[str, Any]) -> None:
        if topic not in self._channels:
            options = {"message_encoding": "json", "context": self._context}
            self._channels[topic] = self._foxglove.Channel(topic, schema=schema_of(message), **options)
        self._channels[topic].log(dict(message))

    def looked_at(self, robot: str) -> bool:
        """Whether somebody looks at its cameras; also while none of them is known."""
        own = [channel for (name, _), channel in self._pictures.items() if name == robot]
        return not own or any(channel.has_sinks() for channel in own)

    def known(self, robot: str) -> bool:
        return any(name == robot for name, _ in self._pictures)

    def show(self, robot: str, model: FleetModel) -> None:
        """Hand on pictures that are new."""
        new = [one for one in model.pictures.of(robot) if self._sent.get((robot, one.camera)) != one.heard_s]
        for one, jpeg in clean_jpegs(new):
            key = robot, one.camera
            self._sent[key] = one.heard_s
            if key not in self._pictures:
                topic = pictures_topic(*key)
                made = self._foxglove.channels.CompressedImageChannel(topic, context=self._context)
                self._pictures[key] = made
            picture = self._foxglove.messages.CompressedImage(
                frame_id=one.camera, data=bytes(jpeg.data), format="jpeg"
            )
            self._pictures[key].log(picture)


def view_live(endpoint: str, port: int, layout: Path) -> int:
    """Until Ctrl-C. Raises `ViewError`."""
    foxglove = _library()
    channels = LiveChannels(foxglove)
    server = channels.start(port, "ROSA")
    _invite(f"the server at {endpoint.removeprefix('ipc://')}", int(server.port), layout)
    try:
        asyncio.run(_run_live(endpoint, channels))
    finally:
        server.stop()
    return 0


async def _run_live(endpoint: str, channels: LiveChannels) -> None:
    model = FleetModel()
    feed = Feed(endpoint, model)
    news = News(model)
    reading = asyncio.create_task(feed.run())
    next_look_s: dict[str, float] = {}
    try:
        while not reading.done():
            now_s = time.monotonic()
            for topic, message in news.due(now_s):
                channels.tell(topic, message)
            for one in list(model.robots)[:MAX_ROBOTS]:
                channels.show(one.robot, model)
                if now_s >= next_look_s.get(one.robot, 0.0) and channels.looked_at(one.robot):
                    again_s = LOOK_EVERY_S if channels.known(one.robot) else LEARN_EVERY_S
                    next_look_s[one.robot] = now_s + again_s
                    feed.look(one.robot)
            await asyncio.sleep(TELL_EVERY_S)
        await reading  # why it ended
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
