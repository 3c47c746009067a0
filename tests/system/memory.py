"""A process with shared memory of its own, so that what other tests leave in it, or remove, is not looked at."""

from __future__ import annotations

import os

# Then a folder, which it finds as /dev/shm, and a command. It fails where no mount namespace can be made.
OWN_MEMORY = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"])]
OWN_MEMORY += ["--mount", "sh", "-c", 'mount --bind "$0" /dev/shm && exec "$@"']
