"""What is taught: one loop that trains, and for each network its losses."""
