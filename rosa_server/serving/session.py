"""Which robots are connected: the rules of hello, welcome and refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rosa_contract.messages import Hello, Refuse, Welcome
from rosa_contract.strict import nearest
from rosa_server.serving.router import Router

TAKEN_FOR_S = 3.0  # a robot that was heard within this time keeps its name
FORGET_AFTER_S = 10.0  # a robot says something every second; after this it has left


@dataclass(slots=True)
class Session:
    """One welcomed robot."""

    connection: bytes
    robot_id: str
    task: str
    models: Mapping[str, str]  # component -> model
    seen_s: float


class Sessions:
    """The welcomed robots, by connection."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._by_connection: dict[bytes, Session] = {}
        self._by_robot: dict[str, Session] = {}
        self._callers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_connection)

    @property
    def robots(self) -> list[str]:
        return sorted(self._by_robot)

    def callers(self, model: str) -> int:
        """How many (robot, component) pairs may call this model."""
        return self._callers.get(model, 0)

    def heard(self, connection: bytes, now_s: float) -> Session | None:
        """The session of this connection, or None when it has to say hello first."""
        session = self._by_connection.get(connection)
        if session is not None:
            session.seen_s = now_s
        return session

    def hello(self, connection: bytes, hello: Hello, now_s: float, ready: frozenset[str]) -> Welcome | Refuse:
        """Welcome a robot, or say why not. `ready`: the models that have a warm worker."""
        if hello.task not in self._router.tasks:
            tasks = self._router.tasks
            hint = nearest(hello.task, tasks)
            return Refuse("unknown_task", f"no task {hello.task!r}{hint}; this server has {', '.join(tasks)}")
        holder = self._by_robot.get(hello.robot_id)
        if holder and holder.connection != connection and now_s - holder.seen_s < TAKEN_FOR_S:
            reason = f"another connection speaks as {hello.robot_id!r}; give each robot its own name or stop the other"
            return Refuse("robot_id_taken", reason)
        models = self._router.models_of(hello.task)
        known = self._by_connection.get(connection)
        familiar = known is not None and (known.robot_id, known.task) == (hello.robot_id, hello.task)
        refusal = self._unfit(hello, models, ready, familiar)
        if refusal is not None:
            return refusal
        if known is not None and familiar:
            known.seen_s = now_s
            return Welcome(models)
        self.leave(connection)
        if holder is not None:
            self.leave(holder.connection)
        session = Session(connection, hello.robot_id, hello.task, models, now_s)
        self._by_connection[connection] = self._by_robot[hello.robot_id] = session
        self._callers.update(models.values())
        return Welcome(models)

    def leave(self, connection: bytes) -> Session | None:
        """Forget a connection; returns its session, if it had one."""
        session = self._by_connection.pop(connection, None)
        if session is not None:
            self._by_robot.pop(session.robot_id, None)
            self._callers.subtract(session.models.values())
        return session

    def silent(self, now_s: float) -> list[Session]:
        """The sessions that were not heard for `FORGET_AFTER_S`."""
        return [s for s in self._by_connection.values() if now_s - s.seen_s > FORGET_AFTER_S]

    def _unfit(
        self, hello: Hello, models: Mapping[str, str], ready: frozenset[str], familiar: bool
    ) -> Refuse | None:
        for component, model in models.items():
            needs = self._router.needs_of(model)
            if needs is None or (model not in ready and not familiar):
                return Refuse("not_ready", f"{model} ({component}) has no warm worker yet; say hello again")
            for camera, size in needs.images.items():
                have = hello.cameras.get(camera)
                if have is None:
                    got = (", ".join(hello.cameras) or "none") + nearest(camera, hello.cameras)
                    return Refuse(
                        "camera_missing", f"{component} ({model}) needs camera {camera!r}; got {got}"
                    )
                if (have.height, have.width) != tuple(size):
                    wanted, got = f"{size[1]}x{size[0]} px (width x height)", f"{have.width}x{have.height}"
                    reason = f"{component} ({model}) needs camera {camera!r} as {wanted}; got {got}"
                    return Refuse("wrong_image_shape", reason)
            for name, length in needs.state.items():
                if hello.state.get(name) != length:
                    values = hello.state.get(name, "none")
                    reason = f"{component} ({model}) needs state {name!r} with {length} values; got {values}"
                    return Refuse("state_missing", reason)
        return None
