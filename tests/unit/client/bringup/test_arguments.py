"""An argument that is wrong is refused with its name, what came and what was expected; files are found anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_client.bringup.arguments import ArgumentError, misspelt, robot_and_cell, split, truth_of, value_of

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("text", ["true", "True", "TRUE"])
def test_true_may_be_written_as_python_writes_it(text: str) -> None:
    robot, cell = robot_and_cell({"use_sim_time": text, "panel": text, "fleet": "False"}, ROOT)
    assert (robot.use_sim_time, cell.panel, cell.fleet) == (True, True, False)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("panel", "yes", "panel: expected true or false, got 'yes'"),
        ("seed", "-1", "seed: expected a whole number, got '-1'"),
        ("driver", "simm", "driver: expected one of replay, robot, sim, got 'simm' (did you mean 'sim'?)"),
        ("namespace", "a b", "namespace: expected letters, digits and '_'"),
        ("namespace", "1st", "namespace: expected letters, digits and '_', not beginning with a digit"),
        ("robot", "nowhere.yaml", "robot: no file 'nowhere.yaml' (looked in"),
        ("config", "/nowhere.yaml", "config: no file '/nowhere.yaml'"),
        ("robt", "x", "no argument 'robt' (did you mean 'robot'?); known: config, robot,"),
    ],
)
def test_a_wrong_argument_is_refused_with_its_name(name: str, text: str, says: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        value_of(name, text, ROOT)
    assert str(caught.value).startswith(says)


def test_a_file_of_the_package_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert value_of("robot", "configs/robots/panda.yaml", ROOT) == str(ROOT / "configs/robots/panda.yaml")


def test_a_description_is_a_file_of_the_package_too_or_somebody_elses() -> None:
    model = "hardware/panda/panda.urdf"
    assert value_of("description", model, ROOT) == str(ROOT / model)
    assert [value_of("description", text, ROOT) for text in ("", "external")] == ["", "external"]
    with pytest.raises(ArgumentError, match="description: no file 'extern'"):
        value_of("description", "extern", ROOT)


def test_a_file_of_the_current_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "configs" / "robots" / "panda.yaml"
    mine.parent.mkdir(parents=True)
    mine.touch()
    assert value_of("robot", "configs/robots/panda.yaml", ROOT) == str(mine)


def test_a_misspelt_name_is_noticed_which_ros2_launch_ignores() -> None:
    assert misspelt(["robot:=a.yaml", "rviz:=true", "--debug"], ["rviz"]) == ""
    assert misspelt(["use_simtime:=true"]).startswith(
        "no argument 'use_simtime' (did you mean 'use_sim_time'?)"
    )


def test_words_that_are_no_arguments_are_refused() -> None:
    assert split(["a:=b:=c"]) == {"a": "b:=c"}
    with pytest.raises(ArgumentError, match=r"expected name:=value .* got 'seed'"):
        split(["seed"])


def test_a_truth_of_another_argument_is_checked_alike() -> None:
    assert truth_of("rviz", "True") is True
    with pytest.raises(ArgumentError, match="rviz: expected true or false, got '1'"):
        truth_of("rviz", "1")
