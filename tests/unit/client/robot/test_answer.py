"""What an answer's actions are, and which answers have none."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_client.robot.answer import answer_of
from rosa_client.robot.errors import RobotError
from rosa_contract.wire.messages import Array, Output, Response


def actions_of(array: Array) -> Array:
    output = Output({"actions": array})
    return answer_of(Response(1, "ok", output=output), output, 1.0).actions


def test_actions_are_rows_of_values() -> None:
    assert actions_of(np.zeros((3, 7), np.float32)).shape == (3, 7)


@pytest.mark.parametrize("shape", [(7,), (0, 7), (1, 3, 7)])
def test_an_array_of_another_form_is_none_that_an_arm_could_play(shape: tuple[int, ...]) -> None:
    with pytest.raises(RobotError, match=r"\(horizon, values\)") as error:
        actions_of(np.zeros(shape, np.float32))
    assert error.value.cause == "no_actions"
