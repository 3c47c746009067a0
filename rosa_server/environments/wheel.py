"""The wheel `rosa-worker`: what a worker consists of, so that any environment can have one.

A wheel of plain Python is an archive with a list of its files; it is written here, so that an installed server, which
has no source tree and perhaps no network, can make it too.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

from rosa_server.serving.base.release import PACKAGES, release, worker_files

NAME, VERSION = "rosa-worker", "0.1.0"
REQUIRES = ("numpy>=1.24", "pyzmq>=25", "msgpack>=1.0", "opencv-python-headless>=4.8")
MADE = (2020, 1, 1, 0, 0, 0)  # of every file: two wheels of one release are the same bytes


def wheel_name() -> str:
    """With the release as its local version: pip replaces a wheel of another one."""
    return f"{NAME.replace('-', '_')}-{VERSION}+{_label()}-py3-none-any.whl"


def _label() -> str:
    return f"r{release()}"  # a part of digits alone would be a number, and lose its zeros


def build_wheel(folder: Path) -> Path:
    """Write the wheel into `folder` and return its path."""
    info = f"{NAME.replace('-', '_')}-{VERSION}+{_label()}.dist-info"
    requires = "".join(f"Requires-Dist: {one}\n" for one in REQUIRES)
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}+{_label()}\n"
        "Summary: the worker of a ROSA server, for a Python environment of a model's own\n"
        f"License: Apache-2.0\nRequires-Python: >=3.10\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: rosa\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/top_level.txt": "rosa_contract\nrosa_server\n",
    }
    contents = {name: (PACKAGES / name).read_bytes() for name in worker_files()}
    contents |= {name: text.encode() for name, text in texts.items()}
    record = "".join(
        f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in contents.items()
    )
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / wheel_name()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, MADE), content, zipfile.ZIP_DEFLATED)
    return path


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
