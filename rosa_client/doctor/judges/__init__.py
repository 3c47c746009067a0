"""What a measured fact means and what to do about it. Pure: no file, socket or clock is read here."""
