"""`python -m rosa_client.bringup`: bring up robots without `ros2 launch`."""

import sys

from rosa_client.bringup.bringup import main

sys.exit(main())
