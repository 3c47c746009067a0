"""Two small models for one Panda and two 96 x 96 cameras: a flow policy and a task monitor."""
