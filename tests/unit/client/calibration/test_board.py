"""The board: what it is called, what it looks like, and that its print has true scale."""

from __future__ import annotations

import re
import zlib

import numpy as np
import pytest

from rosa_client.calibration.board import BoardSpec, board_pdf
from rosa_client.calibration.detection import View, find_board
from rosa_client.calibration.errors import CalibrationError


def test_a_board_has_a_name_that_says_how_it_is_made() -> None:
    board = BoardSpec.parse("9x7:25:18.5")
    assert (board.columns, board.rows, board.square_m, board.marker_m) == (9, 7, 0.025, 0.0185)
    assert BoardSpec.parse(str(board)) == board
    assert board.corners == 48
    assert board.size_m == pytest.approx((0.225, 0.175))


@pytest.mark.parametrize(
    "text", ["", "7x5", "7x6:35:26", "2x3:35:26", "7x5:35:35", "7x5:0:0", "7x5:35:-1", "7x5:3.5.2:26", "a"]
)
def test_an_impossible_board_is_refused(text: str) -> None:
    with pytest.raises(CalibrationError) as refused:
        BoardSpec.parse(text)
    assert refused.value.cause == "bad_board"


def test_all_corners_of_its_own_picture_are_found_in_their_places() -> None:
    board = BoardSpec()
    grey = np.pad(board.picture(4.0), 40, constant_values=255)
    view = find_board("board", np.stack([grey] * 3, axis=2), board)
    assert isinstance(view, View) and len(view.ids) == board.corners
    expected = view.points_m(board)[:, :2] * 1000 * 4.0 + 40 - 0.5
    assert np.abs(view.corners_px - expected).max() < 0.3


def test_the_print_has_true_scale() -> None:
    """PDF counts in points of 1/72 inch."""
    board = BoardSpec()
    pdf = board_pdf(board)
    assert pdf.startswith(b"%PDF-1.4") and pdf.endswith(b"%%EOF\n")
    page = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert page is not None
    assert [float(side) / 72 * 25.4 for side in page.groups()] == pytest.approx([297, 210], abs=0.01)
    placed = re.search(rb"q ([\d.]+) 0 0 ([\d.]+) ([\d.]+) ([\d.]+) cm /Board", pdf)
    assert placed is not None
    width, height, left, bottom = (float(one) / 72 * 25.4 for one in placed.groups())
    assert (width, height) == pytest.approx((245, 175), abs=0.01)
    assert left > 8 and bottom > 8 and left + width < 297 - 8 and bottom + height < 210 - 4
    ruler = re.findall(rb"([\d.]+) ([\d.]+) m ([\d.]+) ([\d.]+) l S", pdf)[0]
    assert (float(ruler[2]) - float(ruler[0])) / 72 * 25.4 == pytest.approx(100, abs=0.01)


def test_the_print_holds_the_board_and_its_table_of_contents_is_right() -> None:
    board = BoardSpec()
    pdf = board_pdf(board)
    start = pdf.index(b"/FlateDecode")
    length = int(re.findall(rb"/Length (\d+)", pdf[start:])[0])
    begin = pdf.index(b"stream\n", start) + len(b"stream\n")
    pixels = np.frombuffer(zlib.decompress(pdf[begin : begin + length]), np.uint8)
    assert np.array_equal(pixels, board.picture().ravel())
    table = int(re.findall(rb"startxref\n(\d+)", pdf)[0])
    assert pdf[table : table + 4] == b"xref"
    for number, place in enumerate(re.findall(rb"(\d{10}) 00000 n", pdf), start=1):
        assert pdf[int(place) :].startswith(b"%d 0 obj" % number)


def test_a_board_that_does_not_fit_the_paper_is_refused() -> None:
    with pytest.raises(CalibrationError) as refused:
        board_pdf(BoardSpec(9, 7))
    assert "larger paper" in str(refused.value)
    assert board_pdf(BoardSpec(9, 7), "a3")
