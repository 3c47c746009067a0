"""What may be ordered of a running server, by name; for the commands too, which need nothing else of it."""

from __future__ import annotations

DRAIN = "drain"  # a server or worker
UNDRAIN = "undrain"
ROLLOUT = "rollout"  # a model; the value is the path of its new weights
CANARY = (
    "canary"  # a rollout whose first worker is compared first; the value begins with the seconds for that
)
SHADOW = "shadow"  # a rollout whose first worker answers copies of calls first; the value as of `CANARY`
CANCEL = "cancel"  # whatever is at work on this target
REMOVE = "remove"  # a robot; the value `KNOWN`: another gateway has removed it, remember its name in any case
ADMIT = "admit"  # a robot that was removed
ADD_SLOT = "add_slot"  # a task; the value `DRY_RUN`: only say what would follow
RESCHEDULE = "reschedule"  # `SCHEDULE`; the value is the path of the new one
RESCHEDULE_DRY_RUN = "reschedule_dry_run"  # only say what would follow
ORDERS = (
    DRAIN,
    UNDRAIN,
    ROLLOUT,
    CANARY,
    SHADOW,
    CANCEL,
    REMOVE,
    ADMIT,
    ADD_SLOT,
    RESCHEDULE,
    RESCHEDULE_DRY_RUN,
)
SCHEDULE = "schedule"  # the target of a rescheduling
DRY_RUN = "dry_run"
KNOWN = "known"
RETIRES_S = 60.0  # a worker that has not ended by then is killed: its calls run elsewhere
