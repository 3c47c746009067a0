"""The ChArUco board: a chessboard whose white squares hold markers, so that a part of it is enough."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rosa_client.calibration.errors import CalibrationError

Array = npt.NDArray[np.float64]
Grey = npt.NDArray[np.uint8]

NUMBER = r"(\d+\.?\d*)"
TEXT = re.compile(rf"(\d+)x(\d+):{NUMBER}:{NUMBER}")
PAPER_MM = {"a4": (297.0, 210.0), "a3": (420.0, 297.0), "letter": (279.4, 215.9)}  # landscape
PX_PER_MM = 12.0  # about 300 dpi
POINTS_PER_MM = 72 / 25.4
RULER_MM = 100.0
MARGIN_MM = 8.0  # what printers leave white


@dataclass(frozen=True)
class BoardSpec:
    """How the board is made. Measure `square_m` on the print: printers scale.

    An odd number of rows looks the same in every version of OpenCV; the layout of others changed with version 4.6.
    """

    columns: int = 7
    rows: int = 5
    square_m: float = 0.035
    marker_m: float = 0.026

    def __post_init__(self) -> None:
        if not (3 <= self.columns <= 30 and 3 <= self.rows <= 30 and self.rows % 2):
            words = (
                f"board: expected 3 to 30 columns and an odd number of rows, got {self.columns}x{self.rows}"
            )
            raise CalibrationError("bad_board", words)
        if not 0 < self.marker_m < self.square_m <= 1:
            words = f"board: expected a marker smaller than its square, got {self.marker_m} m in {self.square_m} m"
            raise CalibrationError("bad_board", words)

    @classmethod
    def parse(cls, text: str) -> BoardSpec:
        """From "7x5:35:26": columns x rows, then sides of square and marker in mm. Raises `CalibrationError`."""
        found = TEXT.fullmatch(text)
        if found is None:
            words = f"board: expected COLUMNSxROWS:SQUARE:MARKER in mm, such as 7x5:35:26, got {text!r}"
            raise CalibrationError("bad_board", words)
        columns, rows, square, marker = found.groups()
        return cls(int(columns), int(rows), float(square) / 1000, float(marker) / 1000)

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows}:{1000 * self.square_m:g}:{1000 * self.marker_m:g}"

    @property
    def size_m(self) -> tuple[float, float]:
        """Width and height."""
        return self.columns * self.square_m, self.rows * self.square_m

    @property
    def corners(self) -> int:
        """Inner corners of the chessboard."""
        return (self.columns - 1) * (self.rows - 1)

    @cached_property
    def opencv(self) -> Any:
        """As OpenCV's object. Raises `CalibrationError` where it has none."""
        try:
            dictionary = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_5X5_100)
            return cv2.aruco.CharucoBoard((self.columns, self.rows), self.square_m, self.marker_m, dictionary)
        except (AttributeError, TypeError):
            words = (
                f"calibration needs OpenCV 4.8 or newer, this is {cv2.__version__}; run it in a virtual environment "
                "with `pip install opencv-python-headless`, on recorded pictures (--images) if need be"
            )
            raise CalibrationError("old_opencv", words) from None

    @cached_property
    def points_m(self) -> Array:
        """The inner corners (corners, 3) in the board's frame: x right, y down, z into the board."""
        return np.asarray(self.opencv.getChessboardCorners(), np.float64)

    def picture(self, px_per_mm: float = PX_PER_MM) -> Grey:
        """The board alone, without a border."""
        width, height = (round(1000 * side * px_per_mm) for side in self.size_m)
        return np.asarray(self.opencv.generateImage((width, height)), np.uint8)


def board_pdf(board: BoardSpec, paper: str = "a4") -> bytes:
    """The board in true scale, in the middle of a page, above a ruler of 100 mm. Raises `CalibrationError`."""
    width_mm, height_mm = PAPER_MM[paper]
    board_width_mm, board_height_mm = (1000 * side for side in board.size_m)
    if board_width_mm > width_mm - 2 * MARGIN_MM or board_height_mm > height_mm - 3 * MARGIN_MM:
        words = f"board: {board_width_mm:g} x {board_height_mm:g} mm does not fit on {paper} with its margins"
        raise CalibrationError("bad_board", f"{words}; choose smaller squares or larger paper")
    left, bottom = (width_mm - board_width_mm) / 2, (height_mm - board_height_mm) / 2 + MARGIN_MM / 2
    content = (
        f"q {_pt(board_width_mm)} 0 0 {_pt(board_height_mm)} {_pt(left)} {_pt(bottom)} cm /Board Do Q\n"
        f"0.5 w {_pt(left)} {_pt(MARGIN_MM)} m {_pt(left + RULER_MM)} {_pt(MARGIN_MM)} l S\n"
        + "".join(
            f"{_pt(x)} {_pt(MARGIN_MM - 1)} m {_pt(x)} {_pt(MARGIN_MM + 1)} l S\n"
            for x in (left, left + RULER_MM)
        )
        + f"BT /F 8 Tf {_pt(left + RULER_MM + 3)} {_pt(MARGIN_MM - 1)} Td "
        f"(this line is {RULER_MM:g} mm long; ROSA board {board}, DICT_5X5_100) Tj ET\n"
    )
    image = board.picture()
    pixels = zlib.compress(image.tobytes(), 9)
    header = f"/Type /XObject /Subtype /Image /Width {image.shape[1]} /Height {image.shape[0]}"
    return _pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {_pt(width_mm)} {_pt(height_mm)}] /Contents 4 0 R /Resources "
            "<< /XObject << /Board 5 0 R >> /Font << /F 6 0 R >> >> >>".encode(),
            _stream("", content.encode()),
            _stream(f"{header} /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /FlateDecode", pixels),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        ]
    )


def _pt(mm: float) -> str:
    return f"{mm * POINTS_PER_MM:.3f}"


def _stream(header: str, content: bytes) -> bytes:
    return f"<< {header} /Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream"


def _pdf(objects: list[bytes]) -> bytes:
    """A PDF 1.4 file of these objects, numbered from 1; the first is the catalog."""
    body = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, start=1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(body))
    return body + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + trailer
