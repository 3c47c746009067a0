"""Where a camera is and how its lens draws: from pictures of a ChArUco board to numbers in the robot file. Pure.

`board.py` describes and draws the board, `detection.py` finds it, `lens.py` and `hand_eye.py` solve, `coverage.py` and
`report.py` show how good it is, `poses.py` proposes where to look from, `robot_file.py` writes the result.
"""
