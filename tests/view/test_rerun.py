"""`rosa view --rerun --save` with Rerun's own library: the file that it writes is read back by that library."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rerun.chunk import RrdReader

from rosa_server.bags.records import records
from rosa_server.cli import main
from rosa_server.viewing.shown import Figure, ShownWords, Still, Teller
from tests.unit.server.trying.toy import world, write_bag


def test_a_whole_recording_is_in_the_file(tmp_path: Path) -> None:
    write_bag(world(), tmp_path / "run.mcap")
    assert main(["view", str(tmp_path), "--rerun", "--save", str(tmp_path / "run.rrd")]) == 0
    teller = Teller()
    told = [one for record in records(tmp_path / "run.mcap") for one in teller.shown(record)]
    assert {type(one) for one in told} == {Figure, Still, ShownWords}
    rows: Counter[str] = Counter()
    for chunk in RrdReader(tmp_path / "run.rrd").stream():
        rows[str(chunk.entity_path)] += chunk.num_rows
    assert {path: rows[path] for path in rows if "__" not in path} == Counter(f"/{one.path}" for one in told)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    write_bag(world(), tmp_path / "run.mcap")
    assert main(["view", str(tmp_path), "--rerun", "--save", str(tmp_path / "missing" / "run.rrd")]) == 2
