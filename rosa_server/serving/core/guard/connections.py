"""Which connections a gateway keeps: what came over each of them and a time go in, and which are cut off comes out.

A message costs its sender nothing and the gateway memory and time, and so does an answer that nobody reads: all is
counted per connection. A connection is *silent* until it has said something understandable, a *stranger* until a robot
was welcomed on it, and *welcomed* from then on, as long as it speaks. Whoever exceeds a limit is cut off, and the
strangers of its address wait before they may connect again; welcomed robots of the same address stay. The socket's side
is `serving/edge/doorman.py`; every limit is explained in docs/security.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rosa_server.serving.core.guard.bucket import Bucket
from rosa_server.serving.core.guard.limits import CAUSES, OFFENCES, Limits
from rosa_server.serving.core.guard.peers import Address, Close, Connection

TICK_S = 0.5  # how often times are compared
MAX_ADDRESSES = 10_000  # remembered; the longest quiet are forgotten first


class Connections:
    """All accepted connections, by a key that their owner chooses."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._by_key: dict[int, Connection] = {}
        self._addresses: dict[str, Address] = {}
        self._strangers: dict[int, None] = {}  # keys, the longest here first
        self._held_strangers = self._held_all = self._unread_all = 0
        self._crowd: Address | None = None  # the address with the most strangers when that was looked up last
        self._requests_bytes = 0  # the largest requests of all welcomed robots, once each
        self._strangers_time = Bucket(self.limits.strangers_time, self.limits.strangers_burst_s)
        self._tick_s = float("-inf")

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def held_bytes(self) -> int:
        """What all connections hold."""
        return self._held_all

    @property
    def unread_bytes(self) -> int:
        """Answers that nobody has read."""
        return self._unread_all

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    def is_robot(self, key: int) -> bool:
        """Whether a robot is welcomed on this connection."""
        one = self._by_key.get(key)
        return one is not None and bool(one.robot)

    def is_cut(self, key: int) -> bool:
        """Whether what still comes from this connection is to be ignored."""
        one = self._by_key.get(key)
        return one is not None and one.cut

    def accepted(self, key: int, address: str, port: int, now_s: float) -> list[Close]:
        """A peer has connected; what it may not have ends at once."""
        limits, known = self.limits, self._address(address)
        one = Connection(
            key,
            address,
            port,
            now_s,
            Bucket(limits.robot_time, limits.robot_burst_s),
            Bucket(limits.bad_per_s, limits.bad_burst),
            now_s,
            limit_bytes=limits.stranger_bytes,
            progress_s=now_s,
        )
        self._by_key[key] = one
        known.connections += 1
        self._strangers[key] = known.strangers[key] = known.silent[key] = None
        if now_s < known.waits_until_s:
            return self._cut(one, "address_waits", f"{known.waits_until_s - now_s:.1f} s more", now_s)
        if (
            len(known.strangers) > limits.strangers_per_address
            or known.connections > limits.connections_per_address
        ):
            return self._too_many(known, one, f"{known.connections} of {address}", now_s)
        if len(self._strangers) > limits.strangers or len(self._by_key) > limits.connections:
            if self._crowd is None:  # it takes long where there are many addresses: once per tick
                self._crowd = max(self._addresses.values(), key=lambda other: len(other.strangers))
            return self._too_many(self._crowd, one, f"{len(self._by_key)} in all", now_s)
        return []

    def closed(self, key: int) -> str:
        """A connection has ended. Returns the robot that was welcomed on it, or an empty string."""
        one = self._by_key.pop(key, None)
        if one is None:
            return ""
        robot = one.robot
        if not one.cut:
            self._estranged(one)
            self._let_go(one)
        self._addresses[one.address].connections -= 1
        return robot

    def received(self, key: int, count: int, now_s: float) -> list[Close]:
        """`count` bytes have come over a connection since it began, without those that wait in the kernel."""
        one = self._by_key.get(key)
        if one is None or one.cut:
            return []
        one.delivered = min(one.delivered, count)  # it is estimated from above; the excess never adds up
        self._hold(one, count - one.delivered)
        if one.held > one.limit_bytes:
            return self._cut(
                one, "held_bytes", f"{one.held} bytes without a message, of {one.limit_bytes}", now_s
            )
        limits = self.limits
        if self._held_strangers > limits.strangers_bytes:
            return self._cut_largest(now_s, "strangers", strangers=True)
        if self._held_all > limits.all_bytes + self._requests_bytes:
            return self._cut_largest(now_s, "connections", strangers=False)
        return []

    def has_room(self, key: int, size: int) -> bool:
        """Whether an answer of `size` bytes may be sent, as far as is known."""
        one = self._by_key.get(key)
        unread = 0 if one is None else one.unread
        if one is None or unread == 0:
            return True
        room = self.limits.robot_unread if one.robot else self.limits.stranger_unread
        return unread + size <= room and self._unread_all + size <= self.limits.all_unread

    def answers(self, key: int, size: int, now_s: float) -> list[Close]:
        """An answer of `size` bytes, or somewhat less on the wire, is about to be sent. Dropped when that is too much.

        An answer may be larger than the limit if nothing else is unread.
        """
        one = self._by_key.get(key)
        if one is None or one.cut:
            return []
        limits, before = self.limits, one.unread
        allowed = limits.robot_unread if one.robot else limits.stranger_unread
        if before == 0:
            one.progress_s = now_s
        elif before + size > allowed:
            return self._cut(one, "unread_answers", f"{before} bytes, of {allowed}", now_s)
        one.answered += size
        self._unread_all += size
        if self._unread_all > limits.all_unread:
            alive = (other for other in self._by_key.values() if not other.cut)
            largest = max(alive, key=lambda other: other.unread)
            words = f"{self._unread_all} bytes of all, {largest.unread} its own"
            return self._cut(largest, "unread_in_all", words, now_s)
        return []

    def overflows(self, key: int, now_s: float) -> list[Close]:
        """An answer found no room in the queue of a connection's socket."""
        one = self._by_key.get(key)
        if one is None or one.cut:
            return []
        return self._cut(one, "unread_answers", f"{one.unread} bytes, and its queue is full", now_s)

    def took(self, key: int, count: int, now_s: float) -> bool:
        """The machine of a peer has acknowledged `count` bytes since the connection began. Whether more is unread."""
        one = self._by_key.get(key)
        if one is None or one.cut:
            return False
        if count > one.taken:
            before = one.unread
            one.taken, one.answered = count, max(one.answered, count)  # answers are counted from below
            self._unread_all += one.unread - before
            one.progress_s = now_s
        return one.unread > 0

    def heard(self, key: int, size: int, spent_s: float, bad: float, now_s: float) -> list[Close]:
        """A whole message of `size` bytes on the wire, or somewhat less, took `spent_s` to handle.

        `bad`: 0 for one that was understood, 1 for one that was not, more for one that nobody sends by mistake.
        """
        one = self._by_key.get(key)
        if one is None or one.cut:
            return []
        one.delivered += size
        self._hold(one, max(0, one.held - size))
        if bad == 0.0:
            one.seen_s = now_s
            self._spoke(one)
        if not one.bad.take(bad, now_s):
            return self._cut(one, "bad_messages", f"more than {self.limits.bad_per_s:g} per second", now_s)
        return self._spent(one, spent_s, now_s)

    def spent(self, key: int, spent_s: float, now_s: float) -> list[Close]:
        """An answer to a connection took so long to make."""
        one = self._by_key.get(key)
        return [] if one is None or one.cut else self._spent(one, spent_s, now_s)

    def _spent(self, one: Connection, spent_s: float, now_s: float) -> list[Close]:
        if one.robot:
            return [] if one.time.take(spent_s, now_s) else self._too_slow(one, self.limits.robot_time, now_s)
        one.spent_s += spent_s
        within = self._addresses[one.address].time.take(spent_s, now_s)
        if not self._strangers_time.take(spent_s, now_s) or not within:
            return self._too_slow(one, self.limits.address_time, now_s)
        return []

    def welcomed(self, key: int, robot: str, largest_request: int) -> None:
        """A robot was welcomed on a connection. `largest_request`: bytes that one of its models takes at most."""
        one = self._by_key.get(key)
        if one is None:
            return
        if one.cut:
            return
        self._estranged(one)
        self._held_strangers -= one.held
        self._is_no_stranger(one)
        self._spoke(one)
        one.robot, one.largest_request = robot, largest_request
        one.limit_bytes = 2 * largest_request + self.limits.welcomed_bytes
        self._requests_bytes += largest_request
        self._addresses[one.address].time.give_back(one.spent_s)  # a fleet that comes at once is no offence
        self._strangers_time.give_back(one.spent_s)
        one.spent_s = 0.0

    def left(self, key: int) -> None:
        """The robot of a connection has left; the connection is a stranger's again."""
        one = self._by_key.get(key)
        if one is not None:
            self._estranged(one)

    def revoke(self, key: int, now_s: float) -> list[Close]:
        """The key that this connection was let in with counts no more."""
        one = self._by_key.get(key)
        if one is None or one.cut:
            return []
        return self._cut(one, "key_revoked", CAUSES["key_revoked"], now_s)

    def tick(self, now_s: float) -> list[Close]:
        """Time has passed."""
        if now_s < self._tick_s:
            return []
        self._tick_s = now_s + TICK_S
        closes: list[Close] = []
        self._crowd = None
        newest, limits = next(reversed(self._by_key), 0), self.limits
        for one in self._by_key.values():
            if one.cut:
                continue
            if one.unread and now_s - one.progress_s > limits.unread_for_s:
                words = f"{one.unread} bytes for {now_s - one.progress_s:.1f} s"
                closes += self._cut(one, "not_reading", words, now_s)
                continue
            if newest - one.key > limits.successors:
                closes += self._cut(one, "too_old", CAUSES["too_old"], now_s)
                continue
            if now_s - one.seen_s <= limits.hello_within_s:
                continue
            if one.robot:  # it fell silent, so it is a stranger again, and may still say hello
                one.seen_s = now_s
                self._estranged(one)
            else:
                closes += self._cut(one, "no_hello", f"for {now_s - one.seen_s:.1f} s", now_s)
        self._forget_addresses(now_s)
        return closes

    # -- what goes -------------------------------------------------------------------------------------------------

    def _too_many(self, crowd: Address, newest: Connection, count: str, now_s: float) -> list[Close]:
        """The longest silent makes room, or the one unwelcomed for longest: a robot is welcomed within milliseconds."""
        victim = next(iter(crowd.silent or crowd.strangers or self._strangers), newest.key)
        return self._cut(self._by_key[victim], "too_many_connections", count, now_s)

    def _too_slow(self, one: Connection, rate: float, now_s: float) -> list[Close]:
        return self._cut(one, "handling_time", f"more than {rate:g} s of handling per second", now_s)

    def _cut_largest(self, now_s: float, who: str, strangers: bool) -> list[Close]:
        alive = (one for one in self._by_key.values() if not one.cut and not (strangers and one.robot))
        largest = max(alive, key=lambda one: one.held, default=None)
        if largest is None:
            return []
        together = self._held_strangers if strangers else self._held_all
        return self._cut(
            largest, "held_in_all", f"{together} bytes of all {who}, {largest.held} its own", now_s
        )

    def _cut(self, one: Connection, cause: str, reason: str, now_s: float) -> list[Close]:
        one.cut = True
        if cause in OFFENCES:
            self._offended(self._addresses[one.address], now_s)
        close = Close(one.key, one.address, one.port, one.robot, cause, reason)
        self._estranged(one)
        self._let_go(one)  # it is on its way out and takes nobody's place
        return [close]

    def _offended(self, address: Address, now_s: float) -> None:
        """The first offence is forgiven, as one robot may have been slow; then each doubles the wait."""
        calm = now_s - address.offended_s > self.limits.calm_after_s
        address.wait_s = 0.0 if calm else max(self.limits.first_wait_s, 2 * address.wait_s)
        address.wait_s = min(address.wait_s, self.limits.longest_wait_s)
        address.offended_s = now_s
        address.waits_until_s = now_s + address.wait_s

    # -- books -----------------------------------------------------------------------------------------------------

    def _address(self, address: str) -> Address:
        found = self._addresses.get(address)
        if found is None:
            bucket = Bucket(self.limits.address_time, self.limits.address_burst_s)
            found = self._addresses[address] = Address(bucket)
        return found

    def _hold(self, one: Connection, held: int) -> None:
        self._held_all += held - one.held
        if not one.robot:
            self._held_strangers += held - one.held
        one.held = held

    def _spoke(self, one: Connection) -> None:
        """It is not silent any more."""
        if one.silent:
            one.silent = False
            self._addresses[one.address].silent.pop(one.key, None)

    def _estranged(self, one: Connection) -> None:
        """It belongs to no robot any more."""
        if one.robot:
            self._held_strangers += one.held
            self._requests_bytes -= one.largest_request
            one.robot, one.largest_request, one.limit_bytes = "", 0, self.limits.stranger_bytes
            self._strangers[one.key] = self._addresses[one.address].strangers[one.key] = None

    def _let_go(self, one: Connection) -> None:
        """A stranger's connection ends: it counts for nothing any more."""
        self._hold(one, 0)
        self._unread_all -= one.unread
        one.answered = one.taken
        self._spoke(one)
        self._is_no_stranger(one)

    def _is_no_stranger(self, one: Connection) -> None:
        self._strangers.pop(one.key, None)
        self._addresses[one.address].strangers.pop(one.key, None)

    def _forget_addresses(self, now_s: float) -> None:
        quiet = [name for name, known in self._addresses.items() if self._forgettable(known, now_s)]
        spare = len(self._addresses) - MAX_ADDRESSES
        if spare > 0:
            idle = (name for name, known in self._addresses.items() if not known.connections)
            quiet += sorted(idle, key=lambda name: self._addresses[name].offended_s)[:spare]
        for name in quiet:
            self._addresses.pop(name, None)

    def _forgettable(self, address: Address, now_s: float) -> bool:
        calm = now_s - address.offended_s > self.limits.calm_after_s
        return calm and not address.connections

    # -- for tests and the simulator -------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `AssertionError` when the sums are not those of the connections."""
        alive: Iterable[Connection] = self._by_key.values()
        assert self._held_all == sum(one.held for one in alive)
        assert self._held_strangers == sum(one.held for one in alive if not one.robot)
        assert self._requests_bytes == sum(one.largest_request for one in alive)
        assert self._unread_all == sum(one.unread for one in alive)
        assert sum(one.silent for one in alive) == sum(len(a.silent) for a in self._each())
        strangers = sum(not one.robot and not one.cut for one in alive)
        assert len(self._strangers) == strangers == sum(len(a.strangers) for a in self._each())
        assert all(one.held >= 0 and one.unread >= 0 for one in alive)
        assert sum(a.connections for a in self._each()) == len(self._by_key)

    def _each(self) -> Iterator[Address]:
        return iter(self._addresses.values())
