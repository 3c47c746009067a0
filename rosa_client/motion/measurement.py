"""Which measurements of an arm count. A measurement is as untrusted as a message: it may come from a second publisher,
from the past, from a broken encoder, or from a clock that was set.

Pure: samples go in with the time at which they arrived; the newest one that counts comes out, and what is wrong with
the others. A sample counts when it is finite, inside the joint limits, newer than the one before by its own stamp, and
reachable from the last one that counted at the speed of the joints. After one that does not count, or a silence,
several in a row over `CONFIRM_S` have to count before the arm is trusted again. A stamp is compared only with earlier
stamps, never with this computer's clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rosa_client.motion.refusal import Refusal
from rosa_contract.config.robot import JointLimits

Array = NDArray[np.float64]

RANGE_SLACK_RAD = 0.05  # an arm that was moved by hand may rest this far beyond a limit of its robot file
SPEED_MARGIN = 1.5  # on the velocity limits: a joint that gives way is faster than it is told to be
NOISE_RAD = 0.02  # between two samples, however close in time
TIMING_S = (
    0.02  # by which the times of two samples may be wrong; nothing moves by a measurement that was let pass
)
CONFIRM_S = 0.2  # without a sample in between that does not count
CONFIRM_SAMPLES = 5
OVERTAKEN_S = 0.05  # a sample this much older than the newest one was overtaken on its way
SILENT_S = 1.0  # without a sample that counts
MAX_DRIFT = 1e-3  # by which two clocks run apart: twice as fast as NTP moves one
STAMP_SLACK_S = 0.25  # a sample this much sooner than the fastest one so far has a stamp from the future

UNCONFIRMED = Refusal("measurement_unconfirmed", "the arm's position is not confirmed yet")


@dataclass(frozen=True)
class Sample:
    """One measurement: positions `(dof,)` rad, when it arrived, and when its source says that it was taken."""

    q_rad: Array
    at_s: float  # this computer's monotonic clock
    stamp_s: float | None = None  # the source's own clock; None: it was taken when it arrived


class MeasurementCheck:
    """Decides which samples count. Times are monotonic, in s."""

    def __init__(self, joints: Sequence[str], limits: JointLimits) -> None:
        self._joints = tuple(joints)
        self._low = np.array(limits.position_min_rad)
        self._high = np.array(limits.position_max_rad)
        self._speed = SPEED_MARGIN * np.array(limits.velocity_rad_s)
        self._trusted: Array | None = None  # the newest position that counts
        self._taken_s = -math.inf  # when it was taken, as far as this computer's clock can tell
        self._heard_s = -math.inf  # when it arrived
        self._fault: Refusal | None = UNCONFIRMED
        self._run = 0  # samples that counted since the last one that did not
        self._run_from_s = 0.0
        self._repeats = 0  # samples with the stamp of the one before, since the last one that counted
        self._stamp_s: float | None = None  # of the newest sample
        self._offset_s = 0.0  # arrival minus stamp of the fastest sample so far

    @property
    def trusted(self) -> Array | None:
        """The newest position that counts `(dof,)` rad; None before the first. It is certain while `fault` is None."""
        return self._trusted

    def age_s(self, now_s: float) -> float:
        """How old `trusted` is; infinite before the first sample that counts."""
        return now_s - self._taken_s

    @property
    def fault(self) -> Refusal | None:
        """Why the arm's position is not known for certain; None when it is.

        Causes: measurement_unconfirmed, measurement_shape, measurement_not_finite, measurement_range,
        measurement_jump, measurement_silent, stamp_frozen, stamp_back, stamp_ahead. The first one stays until the
        measurements are confirmed: those after it often follow from it.
        """
        return self._fault

    def adopt(self, q_rad: Array, now_s: float) -> None:
        """Trust a position at once: that of a simulated arm, which nobody else measures. Raises `ValueError`."""
        if (refusal := self._form(q_rad)) is not None:
            raise ValueError(str(refusal))
        self._trusted, self._taken_s, self._heard_s = q_rad, now_s, now_s
        self._fault, self._stamp_s = None, None

    def question(self) -> None:
        """The arm may be moved by others: its position has to be confirmed again afterwards."""
        self._run = 0
        if self._fault is None:
            self._fault = UNCONFIRMED

    def watch(self, now_s: float) -> None:
        """Time has passed: a silence is a fault too."""
        if self._trusted is None or now_s - self._heard_s <= SILENT_S:
            return
        if self._repeats:
            reason = f"the joint states have repeated the same stamp for {SILENT_S:g} s"
            self._doubt(Refusal("stamp_frozen", reason))
        else:
            self._doubt(Refusal("measurement_silent", f"no new position of the arm for {SILENT_S:g} s"))

    def take(self, sample: Sample) -> Refusal | None:
        """Hear a sample; returns why it does not count. One that was overtaken or sent twice is no fault."""
        self.watch(sample.at_s)
        if sample.stamp_s is not None and sample.stamp_s == self._stamp_s:
            self._repeats += 1
            return Refusal("stamp_frozen", "the stamp is that of the sample before")
        late_s = 0.0 if sample.stamp_s is None or self._stamp_s is None else self._stamp_s - sample.stamp_s
        if 0.0 < late_s < OVERTAKEN_S:
            return Refusal("stamp_back", f"a sample was overtaken by one {late_s:.3g} s younger")
        refusal = self._form(sample.q_rad) or self._stamp(sample)
        taken_s = sample.at_s
        if sample.stamp_s is not None:
            taken_s = min(taken_s, sample.stamp_s + self._offset_s)
        refusal = refusal or self._jump(sample.q_rad, taken_s)
        if refusal is not None:
            self._doubt(refusal)
            return refusal
        self._trusted, self._taken_s, self._heard_s = sample.q_rad, taken_s, sample.at_s
        self._repeats = 0
        self._confirm(sample.at_s)
        return None

    def _doubt(self, refusal: Refusal) -> None:
        self._run = 0
        if self._fault is None or self._fault is UNCONFIRMED:
            self._fault = refusal

    def _confirm(self, now_s: float) -> None:
        if self._fault is None:
            return
        if self._run == 0:
            self._run_from_s = now_s
        self._run += 1
        if self._run >= CONFIRM_SAMPLES and now_s - self._run_from_s >= CONFIRM_S:
            self._fault = None

    # -- one sample ---------------------------------------------------------------------------------------------------

    def _form(self, q_rad: Array) -> Refusal | None:
        if q_rad.shape != self._low.shape:
            reason = f"expected the positions of {len(self._low)} joints, got shape {q_rad.shape}"
            return Refusal("measurement_shape", reason)
        if not np.isfinite(q_rad).all():
            joint = int(np.argmin(np.isfinite(q_rad)))
            return Refusal(
                "measurement_not_finite", f"{self._joints[joint]} is measured at {q_rad[joint]} rad"
            )
        beyond = np.maximum(self._low - q_rad, q_rad - self._high)
        joint = int(np.argmax(beyond))
        if beyond[joint] > RANGE_SLACK_RAD:
            return Refusal(
                "measurement_range",
                f"{self._joints[joint]} is measured at {q_rad[joint]:.6g} rad, expected"
                f" {self._low[joint]:g}..{self._high[joint]:g}",
            )
        return None

    def _stamp(self, sample: Sample) -> Refusal | None:
        """Compare the stamp with the one before. A clock that was set counts again from its second sample on."""
        before_s, stamp_s = self._stamp_s, sample.stamp_s
        if stamp_s is None:
            return None
        if not math.isfinite(stamp_s):
            return Refusal("measurement_not_finite", f"a joint state is stamped {stamp_s}")
        offset_s = sample.at_s - stamp_s
        ahead_s = self._offset_s - offset_s
        self._stamp_s = stamp_s
        if before_s is None or stamp_s < before_s or ahead_s > STAMP_SLACK_S:
            self._offset_s = offset_s
        else:
            # Or the samples of a clock that is slower would count as older and older.
            self._offset_s = min(self._offset_s + MAX_DRIFT * (stamp_s - before_s), offset_s)
        if before_s is None:
            return None
        if stamp_s < before_s:
            return Refusal(
                "stamp_back", f"the stamps of the joint states went back by {before_s - stamp_s:.3g} s"
            )
        if ahead_s > STAMP_SLACK_S:
            reason = f"the stamps of the joint states are {ahead_s:.3g} s ahead of the time that has passed"
            return Refusal("stamp_ahead", reason)
        return None

    def _jump(self, q_rad: Array, taken_s: float) -> Refusal | None:
        before = self._trusted
        if before is None:
            return None
        passed_s = max(0.0, taken_s - self._taken_s)
        beyond = np.abs(q_rad - before) - self._speed * (passed_s + TIMING_S) - NOISE_RAD
        joint = int(np.argmax(beyond))
        if beyond[joint] <= 0.0:
            return None
        return Refusal(
            "measurement_jump",
            f"{self._joints[joint]} is measured at {q_rad[joint]:.3f} rad, {passed_s * 1000:.0f} ms after"
            f" {before[joint]:.3f} rad: no joint is that fast",
        )
