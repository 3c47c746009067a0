#!/usr/bin/python3 -SP
"""The program of every node, under its own name (`resource/nodes/`): a Ctrl-C ends it silently from the first line on.

    python -SP rosa_client/first_line.py rosa_client.nodes.robot.arm_node --ros-args ...

Python itself takes a tenth of a second and more to find its packages (`site`), and a signal meanwhile would print a
traceback. So signals are seen to before that: -S leaves `site` to us, -P keeps this folder out of the search path.
"""

import _signal  # built in, as is posix: importing anything else takes time
import posix

for number in (_signal.SIGINT, _signal.SIGTERM):
    _signal.signal(number, lambda *_: posix._exit(0))

import sys  # noqa: E402

if sys.flags.no_site:
    import site

    site.main()


def main() -> None:
    """Run the node that the first argument or the name of this program says."""
    name = posix.fspath(sys.argv[0]).rpartition("/")[2]
    if name == "first_line.py":
        name = sys.argv.pop(1)
        sys.path.insert(0, posix.getcwd())  # as `python -m` does
    from rosa_client.executables import module_of, run

    run(module_of(name))


if __name__ == "__main__":
    main()
