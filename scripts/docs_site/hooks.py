"""Hooks of the site (mkdocs.yml): links that leave docs/ lead to copies of those files; diagrams work offline."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / ".cache" / "site_scripts"  # of `environment.py`
MERMAID, SHIM = SCRIPTS / "mermaid.js", SCRIPTS / "iframe-worker.js"
STYLE = Path(__file__).with_name("style.css")
SHIM_URL = "https://unpkg.com/iframe-worker/shim"  # where the theme's plugin `offline` takes it from
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"^( *)(```+).*?^\1\2", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("http://", "https://", "mailto:")
AS_THEY_ARE = (".json", ".png", ".jpg", ".pdf", ".mp4", ".gz")  # shown by the browser, or saved
MAX_SHOWN_BYTES = 200_000
LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".sh": "sh",
    ".xml": "xml",
    ".js": "js",
}


def targets(text: str, folder: Path) -> list[Path]:
    """Files and folders of the repository that a page in `folder` links to."""
    found = []
    for _, link, _ in LINK.findall(FENCE.sub("", text)):
        path = (folder / link).resolve()
        if not link.startswith(ELSEWHERE) and path.exists() and path.is_relative_to(ROOT):
            found.append(path)
    return found


def place(path: Path) -> str:
    """Where a file of the repository is in the sources of the site."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_relative_to(ROOT / "docs") and path.is_file():
        return path.relative_to(ROOT / "docs").as_posix()
    return f"files/{name}" if path.suffix in (".md", *AS_THEY_ARE) else f"files/{name}.md"


def origin(src_uri: str) -> Path:
    """The file that a page of the site was made from."""
    if not src_uri.startswith("files/"):
        return ROOT / "docs" / src_uri
    path = ROOT / src_uri.removeprefix("files/")
    return path if path.exists() else path.with_name(path.name.removesuffix(".md"))


def shown(path: Path) -> str:
    """A file or folder of the repository as a page."""
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".md":
        return path.read_text()
    if path.is_dir():
        entries = sorted(one.name + "/" * one.is_dir() for one in path.iterdir() if one.name[0] not in "._")
        return f"# {name}/\n\n" + "\n".join(f"- `{entry}`" for entry in entries) + "\n"
    text = path.read_bytes()[:MAX_SHOWN_BYTES].decode(errors="replace")
    return f"# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"


def slug(heading: str, separator: str) -> str:
    """As GitHub makes it, so that one link works in both places."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_config(config: Any) -> Any:
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds every file outside docs/ that a page links to, and those that these link to."""
    waiting = sorted((ROOT / "docs").rglob("*.md"))
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        for path in targets(page.read_text(), page.parent):
            if path in seen:
                continue
            seen.add(path)
            if path.is_file() and path.is_relative_to(ROOT / "docs"):
                continue
            content = path.read_bytes() if path.suffix in AS_THEY_ARE else shown(path)
            files.append(File.generated(config, place(path), content=content))
            if path.suffix == ".md":
                waiting.append(path)
    for one in (MERMAID, SHIM, STYLE):
        if one.is_file():
            files.append(File.generated(config, f"assets/{one.name}", content=one.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as they have to be from where the page is in the site."""
    source = origin(page.file.src_uri)
    if page.file.src_uri.startswith("files/"):
        page.meta["search"] = {"exclude": True}
        if source.suffix != ".md":
            return markdown
    here = posixpath.dirname(page.file.src_uri)

    def moved(found: re.Match[str]) -> str:
        link = found[2]
        path = (source.parent / link).resolve()
        if link.startswith(ELSEWHERE) or not path.exists() or not path.is_relative_to(ROOT):
            return found[0]
        return f"{found[1]}{posixpath.relpath(place(path), here or '.')}{found[3]}"

    # Code is left as it is.
    parts, at = [], 0
    for block in FENCE.finditer(markdown):
        parts += [LINK.sub(moved, markdown[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*parts, LINK.sub(moved, markdown[at:])])


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Scripts from the site itself; Mermaid only where there is a diagram: it is large."""

    def at(script: Path) -> str:
        return posixpath.relpath(f"assets/{script.name}", posixpath.dirname(page.url) or ".")

    if SHIM.is_file():
        output = output.replace(SHIM_URL, at(SHIM))
    if 'class="mermaid"' not in output or not MERMAID.is_file():
        return output
    return output.replace("</head>", f'<script src="{at(MERMAID)}"></script></head>', 1)
