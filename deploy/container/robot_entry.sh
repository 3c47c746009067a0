#!/usr/bin/env bash
set -eo pipefail
source /opt/ros/jazzy/setup.bash
source /opt/rosa_ws/install/setup.bash
exec "$@"
