"""What a robot's samples tell. Pure: the age of a sample, a frozen camera, something between the fingers."""
