"""The reason for the end of a process is the last error that it logged, else its last line."""

from __future__ import annotations

from rosa_client.bringup.last_words import LastWords

STAMP = "[1795335192.665432691]"


def heard(*lines: str) -> str:
    words = LastWords()
    for line in lines:
        words.hear("camera", line)
    return words.of("camera")


def test_the_last_error_counts_not_what_was_logged_after_it() -> None:
    assert (
        heard(
            f"[ERROR] {STAMP} [panda0.camera_node]: first",
            f"[FATAL] {STAMP} [panda0.camera_node]: no device /dev/video0",
            f"[INFO] {STAMP} [panda0.camera_node]: bye",
        )
        == "no device /dev/video0"
    )


def test_an_error_of_several_lines_is_one_line() -> None:
    assert (
        heard(
            f"[FATAL] {STAMP} [camera_node]: robot.yaml: 2 problems",
            "  name: is missing",
            "  joints: is missing",
            "Not of it",
            "  nor this",
        )
        == "robot.yaml: 2 problems name: is missing joints: is missing"
    )


def test_without_an_error_the_last_line_counts_that_is_not_logged() -> None:
    assert heard("Traceback (most recent call last):", "ValueError: bad", "") == "ValueError: bad"
    assert heard("rosa: bad", f"[INFO] {STAMP} [camera_node]: up") == "rosa: bad"
    assert heard(f"[INFO] {STAMP} [camera_node]: up") == ""


def test_a_process_that_said_nothing_gave_no_reason_and_others_words_are_theirs() -> None:
    words = LastWords()
    words.hear("arm", f"[FATAL] {STAMP} [arm]: mine")
    assert words.of("camera") == ""
