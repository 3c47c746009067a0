"""Reach and press: a 6-joint arm without a gripper presses a button that it sees, moved by steps of its tool."""
