"""What runs on a robot: arm, cameras, sensors, the runtime, the recorder. Decisions are taken elsewhere."""
