"""`python -m rosa_sim.demo`: what `make demo` runs."""

import sys

from rosa_sim.demo.demo import main

sys.exit(main())
