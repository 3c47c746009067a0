"""Whether gateway and worker run as machine code.

The wheel `rosa-compiled` puts compiled modules beside the plain ones, and Python prefers them. They do what the plain
ones do, which stay the reference.
"""

from __future__ import annotations

import json
from importlib.util import find_spec

from rosa_server.serving.base.release import PACKAGES, release
from rosa_server.serving.base.worker_spec import ReleaseError

ONE = "rosa_contract.wire.codec"  # of its modules
RECORD = PACKAGES / "rosa_server" / "compiled.json"  # of which plain files they were made


def compiled() -> bool:
    """Whether the modules that a request passes are compiled."""
    found = find_spec(ONE)
    return found is not None and not str(found.origin).endswith(".py")


def check_compiled() -> None:
    """Raise `ReleaseError` where compiled modules are not of the release of the plain files beside them."""
    if not compiled() or not RECORD.exists():
        return
    made_of = str(json.loads(RECORD.read_text()).get("release"))
    if made_of != release():
        raise ReleaseError(
            "other_release",
            f"rosa-compiled was made of release {made_of}, the files in {PACKAGES} are of {release()}: install the"
            " wheel of this release, or `pip uninstall rosa-compiled`",
        )
