"""What makes motion safe. Pure: chunk player, setpoint filter, limits, kinematics, emergency stop."""
