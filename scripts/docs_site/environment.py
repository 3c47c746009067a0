"""Set up the environment of `make site`: mkdocs-material, and scripts for diagrams and search that need no internet.

    PYTHONPATH=scripts python3 scripts/docs_site/environment.py [--venv .venv-site]

Only who builds the site needs it, so it is no part of the set-up. Needs only the standard library, and does nothing
when nothing has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from setup_steps import ROOT, SetupError, Steps, digest, fresh_venv, run, say, status_of

PINNED = ROOT / "requirements" / "site.txt"
SCRIPTS = ROOT / ".cache" / "site_scripts"  # `hooks.py` looks here


@dataclass(frozen=True)
class Script:
    """One file of an npm package, whose checksum is known; kept under the package's name."""

    package: str
    version: str
    sha256: str  # of the package
    file: str


NEEDED = (
    # Diagrams.
    Script(
        "mermaid",
        "11.17.2",
        "6ad2f42c3fc26bbf9e45cbb6d11898972573ea52b33a5f4ff51952899f950ffd",
        "package/dist/mermaid.min.js",
    ),
    # Search, where the pages are opened as files: a browser starts no worker for them.
    Script(
        "iframe-worker",
        "1.0.4",
        "e8c5d12d87829c503afba01d67772ea9f4aba5b7ae57a0c98e1917711030efbb",
        "package/shim/index.js",
    ),
)


def make(venv: Path) -> None:
    """Make or renew the environment. Raises `SetupError` with what pip or npm said."""
    steps = Steps(venv)
    key = digest(PINNED, Path(__file__).resolve())
    steps.step("site", key, f"{venv.name}: mkdocs-material", lambda: install(venv))
    missing = [one for one in NEEDED if not (SCRIPTS / f"{one.package}.js").is_file()]
    if missing and shutil.which("npm") is None:
        say("npm is missing (apt-get install npm): the site's diagrams and its search will need the internet")
        return
    for one in missing:  # `make clean` takes them away, the environment stays
        say(f"{one.package} from npm ...")
        fetch(one)


def install(venv: Path) -> None:
    pip = fresh_venv(venv, "site")
    run([*pip, "--no-deps", "-r", PINNED], "site_packages")


def fetch(script: Script) -> None:
    """Raises `SetupError` where the package is not the one that is meant."""
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    run(["npm", "pack", "--silent", f"{script.package}@{script.version}"], script.package, cwd=SCRIPTS)
    archive = SCRIPTS / f"{script.package}-{script.version}.tgz"
    if hashlib.sha256(archive.read_bytes()).hexdigest() != script.sha256:
        raise SetupError(f"{archive.relative_to(ROOT)}: another checksum than expected")
    with tarfile.open(archive) as files:
        found = files.extractfile(script.file)
        assert found is not None
        (SCRIPTS / f"{script.package}.js").write_bytes(found.read())
    archive.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--venv", default=".venv-site", help="its folder, in the repository")
    venv = ROOT / parser.parse_args().venv
    return status_of(lambda: make(venv))


if __name__ == "__main__":
    raise SystemExit(main())
