"""Why a calibration is refused."""

from __future__ import annotations

from typing import ClassVar

from rosa_contract.errors import CausedError


class CalibrationError(CausedError):
    """The pictures do not give a calibration that can be trusted; the text says what to do."""

    CAUSES: ClassVar = {
        "bad_board": "the description of the board is impossible",
        "old_opencv": "OpenCV is too old, or was built without its aruco module",
        "no_board": "no picture shows the board",
        "wrong_board": "the board in the pictures is not the one that was described, or has another size",
        "blurred": "the pictures are blurred",
        "too_few_views": "too few pictures show enough of the board",
        "degenerate": "the board or the arm was held in too similar poses",
        "bad_picture": "a picture cannot be read, or has another size than the others",
        "high_residual": "the result does not explain the pictures",
        "not_written": "the robot file cannot take the result, or a file cannot be written",
        "no_robot": "nothing is received from the camera or the joints",
    }
