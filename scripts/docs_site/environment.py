"""Set up the environment of `make site`: mkdocs-material, and Mermaid for diagrams that need no internet.

    PYTHONPATH=scripts python3 scripts/docs_site/environment.py [--venv .venv-site]

Only who builds the site needs it, so it is no part of the set-up. Needs only the standard library, and does nothing
when nothing has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tarfile
from pathlib import Path

from setup_steps import ROOT, SetupError, Steps, digest, fresh_venv, run, say, status_of

PINNED = ROOT / "requirements" / "site.txt"
MERMAID = ROOT / ".cache" / "mermaid"  # `hooks.py` looks here
VERSION = "11.17.2"
SHA256 = "6ad2f42c3fc26bbf9e45cbb6d11898972573ea52b33a5f4ff51952899f950ffd"


def make(venv: Path) -> None:
    """Make or renew the environment. Raises `SetupError` with what pip or npm said."""
    steps = Steps(venv)
    key = digest(PINNED, Path(__file__).resolve())
    steps.step("site", key, f"{venv.name}: mkdocs-material", lambda: install(venv))
    if (MERMAID / "mermaid.min.js").is_file():
        return
    if shutil.which("npm") is None:
        say("npm is missing (apt-get install npm): the site's diagrams will need the internet to show")
        return
    steps.step("mermaid", f"{VERSION} {SHA256}", "Mermaid (18 MB to download)", fetch_mermaid)


def install(venv: Path) -> None:
    pip = fresh_venv(venv, "site")
    run([*pip, "--no-deps", "-r", PINNED], "site_packages")


def fetch_mermaid() -> None:
    """One file of the npm package, whose checksum is known."""
    MERMAID.mkdir(parents=True, exist_ok=True)
    run(["npm", "pack", "--silent", f"mermaid@{VERSION}"], "mermaid", cwd=MERMAID)
    archive = MERMAID / f"mermaid-{VERSION}.tgz"
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        raise SetupError(f"{archive.relative_to(ROOT)}: another checksum than expected")
    with tarfile.open(archive) as files:
        found = files.extractfile("package/dist/mermaid.min.js")
        assert found is not None
        (MERMAID / "mermaid.min.js").write_bytes(found.read())
    archive.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--venv", default=".venv-site", help="its folder, in the repository")
    venv = ROOT / parser.parse_args().venv
    return status_of(lambda: make(venv))


if __name__ == "__main__":
    raise SystemExit(main())
