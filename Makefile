# Two commands matter: `make demo` and `make test`. Both do all the set-up; a second run starts in seconds.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= $(shell command -v $$(test -n "$${ROS_DISTRO:-}" && echo python3 || echo python3.11) || command -v python3)
VENV ?= .venv
FRANKA_VENV ?= .venv-franka
JAX_VENV ?= .venv-jax
RAY_VENV ?= .venv-ray
SERVE_VENV ?= .venv-serve
JUDGES_VENV ?= .venv-judges
VIEW_VENV ?= .venv-view
VLLM_VENV ?= .venv-vllm
LEROBOT ?= lerobot
LEROBOT_BASE ?= $(PYTHON)
LEROBOT_VENV ?= .venv-$(LEROBOT)
LEROBOT_HAS = $(or $(LEROBOT_PYTHON),$(abspath $(LEROBOT_VENV))/bin/python)
SITE_VENV ?= .venv-site
MUJOCO = $$(grep ^mujoco== requirements/constraints.txt)
# Each run starts many processes (the tests hundreds), which would all compile the same files again; `make clean` removes what is kept.
export PYTHONDONTWRITEBYTECODE :=
# Interfaces built beside an installed ROS 2 have to be found; with the wheels there is nothing to source.
WITH = if test -f $(VENV)/rosa_ros/local_setup.sh; then set +u; . $(VENV)/rosa_ros/local_setup.sh; set -u; fi; $(VENV)/bin/
SOURCES = rosa_contract rosa_client rosa_server rosa_sim benchmarks launch scripts tests setup.py
# Quick ones first; figures draws what claims and paper_schedules wrote.
BENCHMARKS = roofline batching cancelled_frames calls_beside paper_schedules gpus shared_prefixes pictures robot_side nodes_against arm_interface exact transport against networks frontends path gateway_cost capacity wire decode_ahead decode_cost kv_serving kv_sharing moved_state pipelined_decode scale cluster_cost dashboard \
  claims figures asynchronous horizon kairos scheduler fleet cases live_calls fleet_policies random_factories closed_loop
MODULE = echo benchmarks/*/$$name.py | sed 's|/|.|g; s|.py$$||'  # of the benchmark $$name
ONLY ?=
ARGS ?=
FAULT ?=
CLUSTER ?=
REPEAT ?= 20
TASK ?=
HOURS ?= 1
MINUTES ?= 1
SECONDS ?= 30
# As many processes as there are cores (tests/lanes.py); ARGS="-n0 ..." for all tests in one, as for --pdb.
TESTS = python -m pytest -n auto --durations 10

.PHONY: help setup setup-demo demo test test-unit check gpu test-franka test-judges test-view test-pages test-lerobot test-env test-jax test-vllm test-compiled test-pythons test-ray cluster prove format train train-act evaluate bench results faults fuzz hostile chaos soak colcon docs site wheels compiled sbom clean clean-all

help:  ## this text
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'
	@echo "  options go to the command with ARGS=\"...\""

setup:  ## virtual environment, packages, ROS 2, interfaces, scene cache (every other target does it first)
	@test -n "$(PYTHON)" || { echo "Python 3.11 is missing: sudo apt-get install python3.11 python3.11-venv"; exit 1; }
	@"$(PYTHON)" scripts/setup_env.py --venv $(VENV)

# The demo needs a part of it, and first motion is what one waits for. Faults and `--arm ros2_control` need the rest.
setup-demo:
	@test -n "$(PYTHON)" || { echo "Python 3.11 is missing: sudo apt-get install python3.11 python3.11-venv"; exit 1; }
	@"$(PYTHON)" scripts/setup_env.py --venv $(VENV) $(if $(FAULT)$(findstring ros2_control,$(ARGS)),,--demo)

demo: setup-demo  ## 10 pick-and-place episodes with server, ROS 2 nodes and the simulated Panda; TASK=sort_parts: three blocks by a rule in words; FAULT=list: what can go wrong; POLICY=tokens: the autoregressive policy; POLICY=act: LeRobot's, after `make train-act`
	@$(WITH)python -m rosa_sim.demo $(if $(TASK),--task $(TASK)) $(if $(FAULT),--fault $(FAULT)) $(if $(POLICY),--policy $(POLICY)) $(ARGS)

test: setup  ## every test
	@$(WITH)$(TESTS) $(ARGS)

test-unit: setup  ## the quick tests, without servers and robots: about a minute on two cores
	@$(WITH)python -m pytest -n 2 -q --durations 5 -m "not slow" tests/unit $(ARGS)

check: setup  ## the one gate: format, lint, types, tests
	@$(WITH)python -m ruff format --check .
	@$(WITH)python -m ruff check .
	@$(WITH)python -m mypy
	@$(WITH)$(TESTS) $(ARGS)

test-franka:  ## the driver `franka` against a simulated FR3, in an environment of its own; MINUTES=10: how long it must hold without a lost state
	@"$(PYTHON)" scripts/franka_env.py --venv $(FRANKA_VENV)
	@MINUTES=$(MINUTES) $(FRANKA_VENV)/bin/python -m pytest --confcutdir tests/franka -p no:cacheprovider tests/franka $(ARGS)

test-ray: setup  ## servers whose workers Ray starts on two machines, which are network namespaces of this one (a minute; installs Ray)
	@"$(PYTHON)" scripts/beside_env.py ray --venv $(RAY_VENV) --beside $(VENV)
	@$(RAY_VENV)/bin/python -m pytest --confcutdir tests/ray -p no:cacheprovider tests/ray $(ARGS)

cluster: setup  ## two machines on one: a gateway on each, 32 robots and the Panda are served, a machine dies and comes back, people drain, roll out and reschedule; prints what each robot lost
	@"$(PYTHON)" scripts/beside_env.py ray --venv $(RAY_VENV) --beside $(VENV)
	@$(RAY_VENV)/bin/python -m rosa_sim.machines $(ARGS)

test-judges: setup  ## vla-eval and inspect-robots drive ROSA with their own code, on Meta-World and their mock (minutes, installs 130 MB)
	@"$(PYTHON)" scripts/beside_env.py judges --venv $(JUDGES_VENV) --beside $(VENV)
	@$(JUDGES_VENV)/bin/python -m pytest --confcutdir tests/judges -p no:cacheprovider tests/judges $(ARGS)

test-view: setup  ## `rosa view` with the libraries of Foxglove and Rerun, in an environment of their own (a minute, installs packages)
	@"$(PYTHON)" scripts/beside_env.py view --venv $(VIEW_VENV) --beside $(VENV)
	@export PYTHONPATH=$$(echo $(abspath $(VIEW_VENV))/lib/python3*/site-packages); $(WITH)python -m pytest --confcutdir tests/view -p no:cacheprovider tests/view $(ARGS)

# The options are for pytest, not for the `make` that a page types.
test-pages: setup  ## the commands of README and docs/ as they are printed, page by page, on a machine that is a network namespace of this one (half an hour, of which the demos take the most; needs root)
	@unset MAKEFLAGS ARGS; $(WITH)python -m pytest --confcutdir tests/pages -p no:cacheprovider tests/pages $(ARGS)

test-lerobot: setup  ## LeRobot's policies behind ROSA, and LeRobot's own commands with the policy `rosa`, in an environment of LeRobot's own (minutes, installs 8 GB). LEROBOT=lerobot06 LEROBOT_BASE=python3.12: LeRobot 0.6; LEROBOT_PYTHON=...: an environment that is there
ifdef LEROBOT_PYTHON
	@made=$$(mktemp -d); wheel=$$($(WITH)python -m rosa_server.cli env $(LEROBOT) --wheel $$made); \
	  $(LEROBOT_PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $$wheel; rm -r $$made
else
	@$(WITH)python -m rosa_server.cli env $(LEROBOT) --folder $(LEROBOT_VENV) --with "$(MUJOCO)" --python "$(LEROBOT_BASE)"
endif
	@$(LEROBOT_HAS) -m pip install --quiet --disable-pip-version-check --no-deps ./integrations/lerobot
	@export LEROBOT_PYTHON="$(LEROBOT_HAS)"; \
	  $(WITH)python -m pytest --confcutdir tests/lerobot -p no:cacheprovider tests/lerobot $(ARGS)

test-env: setup  ## models in Python environments of their own, with every Python from 3.10 that is here (minutes, installs packages)
	@$(WITH)python -m pytest --confcutdir tests/envs -p no:cacheprovider tests/envs $(ARGS)

test-jax: setup  ## backend `jax_policy` in an environment of its own: the shipped policy in JAX against PyTorch, parameters of Orbax too (a minute; installs JAX)
	@$(WITH)python -m rosa_server.cli env jax --folder $(JAX_VENV) --with orbax-checkpoint==0.12.8
	@export ROSA_JAX_PYTHON=$(abspath $(JAX_VENV))/bin/python; $(WITH)python -m pytest --confcutdir tests/jax -p no:cacheprovider tests/jax $(ARGS)

test-vllm: setup  ## backend `vllm` with vLLM itself on a CPU, in an environment of its own (minutes, installs 3 GB): a small random Idefics3
	@$(WITH)python -m rosa_server.cli env worker --folder $(VLLM_VENV)
	@$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/vllm-test.txt
	@export ROSA_VLLM_PYTHON=$(abspath $(VLLM_VENV))/bin/python; $(WITH)python -m pytest --confcutdir tests/vllm -p no:cacheprovider tests/vllm $(ARGS)

test-compiled: setup  ## gateway and codec compiled, as `rosa-compiled` has them: the same bytes and decisions as the plain files, and their own tests (minutes)
	@$(WITH)python -m pytest --confcutdir tests/compiled -p no:cacheprovider tests/compiled $(ARGS)
	@folder=$$($(WITH)python scripts/compiled.py --serving); $(WITH)python -m pytest -n0 -q -m "not plain" -o "pythonpath=$$folder ." -p no:cacheprovider tests/unit/contract/wire \
	  tests/unit/server/serving $(ARGS)

test-pythons:  ## server, scheduler, client and dashboard on each of Python 3.11 to 3.13 that is here (minutes each, installs packages); ARGS="--only 3.12"
	@"$(PYTHON)" scripts/pythons.py $(ARGS)

prove: setup  ## search everything that can happen to the robot's core and its arm, then 100,000 random steps and more (minutes)
	@$(WITH)python -m rosa_sim.explore
	@export HYPOTHESIS_PROFILE=long; $(WITH)python -m pytest -q -s -o faulthandler_timeout=7200 -m prove tests/unit

format: setup  ## format and sort imports in place
	@$(WITH)python -m ruff check --fix-only .
	@$(WITH)python -m ruff format .

train: setup  ## make the shipped models from nothing
	@$(WITH)python -m rosa_sim.training all $(ARGS)

train-act: setup  ## an ACT policy of LeRobot for the simulated cell, from recording to checkpoint, in LeRobot's environment (10 to 50 minutes of one core; installs 8 GB); `make demo POLICY=act` plays it
	@$(WITH)python -m rosa_server.cli env lerobot --folder $(LEROBOT_VENV) --with "$(MUJOCO)"
	@PYTHONPATH=. $(LEROBOT_VENV)/bin/python -m rosa_sim.training.act $(ARGS)

evaluate: setup  ## success on 100 unseen seeds, with real and with blanked images, the monitor's accuracy, and other colours, light and camera
	@$(WITH)python -m rosa_sim.training evaluate limits $(ARGS)

bench: setup  ## every benchmark, about three hours on two idle cores; ONLY="transport kairos": these; writes benchmarks/results/. Chaos, faults and soak have commands of their own (docs/results.md)
	@missed=; for name in $(or $(ONLY),$(BENCHMARKS)); do \
	  echo "[bench] $$name"; \
	  $(WITH)python -m $$($(MODULE)) $(ARGS) || { status=$$?; test $$status -lt 128 || exit $$status; missed="$$missed $$name"; }; \
	done; test -z "$$missed" || { echo "[bench] these ended with an error or a missed aim:$$missed"; exit 1; }

gpu:  ## every measurement that needs a GPU, on a machine that has one: each part within ten minutes, with torch, numpy and OpenCV alone (PYTHON=python3 names the one that has them); ARGS="--part kv_sharing": one of them
	@"$(PYTHON)" -m benchmarks.gpu.gpu $(ARGS)

results: setup  ## the quick benchmarks, the paper's figures and docs/results.md again; ten minutes (the page lists the slow ones)
	@for name in roofline batching cancelled_frames paper_schedules claims figures; do $(WITH)python -m $$($(MODULE)); done
	@$(WITH)python scripts/generate_docs.py

faults: setup  ## every fault, 20 times each, promised against happened (about an hour); goes on where it was interrupted. CLUSTER=ray: those of machines, on two of them, REPEAT=20 times each (hours); CLUSTER=serve: what Ray Serve's own restart costs there; CLUSTER=pair: one of two servers that robots know; these go on with ARGS=--resume
ifeq ($(CLUSTER),ray)
	@"$(PYTHON)" scripts/beside_env.py ray --venv $(RAY_VENV) --beside $(VENV)
	@$(RAY_VENV)/bin/python -m benchmarks.faults.machine_faults --repeat $(REPEAT) $(ARGS)
else ifeq ($(CLUSTER),serve)
	@"$(PYTHON)" scripts/beside_env.py ray --venv $(RAY_VENV) --beside $(VENV)
	@"$(PYTHON)" scripts/beside_env.py serve --venv $(SERVE_VENV) --beside $(RAY_VENV)
	@$(SERVE_VENV)/bin/python -m benchmarks.faults.machine_faults --part serve --repeat $(REPEAT) $(ARGS)
else ifeq ($(CLUSTER),pair)
	@$(WITH)python -m benchmarks.faults.machine_faults --part pair --repeat $(REPEAT) $(ARGS)
else
	@$(WITH)python -m benchmarks.faults.faults $(ARGS)
endif

fuzz: setup  ## inputs that reach new code for every parser, SECONDS=30 for each; then a million hostile messages against a live server, with an honest robot beside them (minutes)
	@$(WITH)python -m rosa_sim.fuzz.coverage --seconds $(SECONDS)
	@$(WITH)python -m rosa_sim.fuzz $(ARGS)

hostile: setup  ## every attack on a server beside well-behaved robots, one after the other and all together for ten minutes; then those of clients on the frontends
	@$(WITH)python -m rosa_sim.hostile $(ARGS)
	@$(WITH)python -m rosa_sim.hostile.frontends

chaos: setup  ## random faults against simulated fleets, every promise checked: 10,000 robot-hours with compiled cores (hours), goes on where it was interrupted
	@$(WITH)python scripts/compiled.py -m rosa_sim.chaos $(ARGS)

soak: setup  ## virtual robots that come, leave and crash, for HOURS=1: descriptors, memory and latency stay flat
	@$(WITH)python -m benchmarks.faults.soak --hours $(HOURS) $(ARGS)

colcon: setup  ## build both ROS 2 packages with colcon, as a robot's workspace would, into .cache/colcon
	@$(WITH)python scripts/colcon_build.py

docs: setup  ## write the generated pages of docs/ again
	@$(WITH)python scripts/generate_docs.py

site: setup  ## the documentation as a site, .cache/site/index.html; a dead link, or a command or option that does not exist, fails
	@$(WITH)python scripts/page_commands.py
	@$(WITH)python scripts/generate_docs.py --check
	@PYTHONPATH=scripts "$(PYTHON)" scripts/docs_site/environment.py --venv $(SITE_VENV)
	@NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/mkdocs build --strict --quiet
	@echo "open .cache/site/index.html"

wheels:  ## the wheels rosa-client, rosa-serving and rosa-sim, in .cache/wheels
	@"$(PYTHON)" scripts/release/wheels.py $(ARGS)

compiled: setup  ## the wheel rosa-compiled, in .cache/wheels: gateway and codec as machine code, for this Python and kind of machine (minutes; needs a C compiler)
	@PYTHONPATH=scripts $(VENV)/bin/python scripts/release/compiled_wheel.py $(ARGS)

sbom: setup  ## a software bill of materials (CycloneDX), .cache/sbom.cdx.json
	@$(WITH)python scripts/sbom.py $(ARGS)

clean:  ## remove caches and build folders; keep the virtual environment and recorded runs
	rm -rf .cache build install log .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

clean-all: clean  ## clean, and the virtual environments too
	rm -rf $(VENV) $(FRANKA_VENV) $(JAX_VENV) $(RAY_VENV) $(SERVE_VENV) $(JUDGES_VENV) $(VIEW_VENV) $(VLLM_VENV) $(LEROBOT_VENV) .venv-lerobot .venv-lerobot06 $(SITE_VENV) .venv-pythons
