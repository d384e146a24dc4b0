# `make` alone lists what can be made.
#
# An active virtual environment is used as it is; otherwise .venv is made. PYTHON=... names an
# interpreter to be used with what it has, and nothing is installed.

EX ?=
SUBMISSION ?= exercises
DEVICE ?=
COURSE ?=
EXERCISES ?=
SEED ?=
ISOLATION ?= auto
EMBEDDING ?= drawn
TOKENS ?=
HEAD ?=
OUT ?=
MINUTES ?= 30
WITHIN ?=
ROSTER ?=
SOURCE ?=
RESULTS ?=
JOBS ?=
CLUSTER ?=
SEALED ?=
SEEDS ?=
SITE_URL ?=
FRESH ?=
SHARD ?=
ARGS ?=
# So that make test can say how long it took.
export MAKE_TEST_STARTED := $(shell date +%s)
TORCH ?= $(if $(wildcard /proc/driver/nvidia/version),cuda,cpu)

BASE_PYTHON ?= python3
VENV := $(or $(VIRTUAL_ENV),.venv)
ifeq ($(origin PYTHON),undefined)
PY := $(VENV)/bin/python
CORE := $(VENV)/.installed-core-$(TORCH)
DEV := $(VENV)/.installed-dev-$(TORCH)
NOTEBOOKS := $(VENV)/.installed-notebooks-$(TORCH)
SIMILAR := $(VENV)/.installed-similar-$(TORCH)
LEARN := $(VENV)/.installed-learn-$(TORCH)
SITE := $(VENV)/.installed-site-$(TORCH)
WITH_CLUSTER := $(VENV)/.installed-cluster-$(TORCH)
else
PY := $(PYTHON)
CORE :=
DEV :=
NOTEBOOKS :=
SIMILAR :=
LEARN :=
SITE :=
WITH_CLUSTER :=
endif
# A path as the shell takes it, whatever is in it.
quoted = '$(subst ','\'',$(1))'
PROCESSORS = $$($(PY) -c 'import os; print(os.cpu_count())')
# Tests that may run at the same time, file by file, two files more than there are processors: a third of their time is waiting.
# What runs pytest itself, or has processes of its own, is left out.
AT_ONCE = -n $$(($(PROCESSORS) + 2)) --dist loadfile --no-loadscope-reorder --ignore=tests/cheats --ignore=tests/proof --ignore=tests/timing/test_replay.py
GRADER := $(PY) -m grader$(if $(COURSE), --course $(call quoted,$(COURSE)))$(if $(EXERCISES), --exercises $(call quoted,$(EXERCISES)))
CLASS := $(if $(filter file,$(origin SUBMISSION)),submissions,$(SUBMISSION))

.DEFAULT_GOAL := help
.PHONY: help grade bench watch learn hint debug progress show drill interview reset test coverage weekly lint skeletons release collect class return similar mutants mechanical diagnose-trial headroom cheats house new doctor gpu-check bench-startup bench-walls bench-watch bench-learn bench-crossing bench-steadiness bench-stopping bench-spinner bench-class bench-similar bench-kernels bench-notebooks picture site wheel print-install clean

help: ## list what can be made
	@awk -F ':.*## ' '/^##@ / { part = substr($$0, 5) } /^[a-z-]+:.*## / { if (part) print "\n" part; part = ""; printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ To learn

grade: $(CORE) ## grade your answers (EX=ex03_sdpa SUBMISSION=path DEVICE=cpu|cuda SEED=... FRESH=1 ISOLATION=... COURSE=course.toml ARGS=--no-speed)
	@$(GRADER) grade $(EX) --submission $(call quoted,$(SUBMISSION)) $(if $(DEVICE),--device $(DEVICE)) --isolation $(ISOLATION) $(if $(SEED),--seed $(SEED)) $(if $(FRESH),--fresh) $(ARGS)

watch: $(CORE) ## grade on every save (EX= to begin with; SUBMISSION= ISOLATION=)
	@$(GRADER) watch $(EX) --submission $(call quoted,$(SUBMISSION)) --isolation $(ISOLATION) $(ARGS)

learn: $(LEARN) ## open a page to read, write and see verdicts (EX= to begin with; SUBMISSION= ISOLATION= ARGS="--port 8000 --no-browser")
	@$(GRADER) learn $(EX) --submission $(call quoted,$(SUBMISSION)) --isolation $(ISOLATION) $(ARGS)

hint: $(CORE) ## the next hint (EX=ex03_sdpa ARGS="--level 2")
	@$(GRADER) hint $(EX) --submission $(call quoted,$(SUBMISSION)) --isolation $(ISOLATION) $(ARGS)

show: $(CORE) ## every step of an example, yours beside the reference (EX= TOKENS="your own words" EMBEDDING=one-hot HEAD=1 OUT=weights.png)
	@$(GRADER) show $(EX) --submission $(call quoted,$(SUBMISSION)) --isolation $(ISOLATION) --embedding $(EMBEDDING) $(if $(TOKENS),--tokens $(call quoted,$(TOKENS))) $(if $(HEAD),--head $(HEAD)) $(if $(OUT),-o $(call quoted,$(OUT))) $(ARGS)

debug: $(CORE) ## the first failing case in the debugger, your function on top (EX=ex03_sdpa SUBMISSION= DEVICE= SEED=)
	@$(GRADER) debug $(EX) --submission $(call quoted,$(SUBMISSION)) $(if $(DEVICE),--device $(DEVICE)) $(if $(SEED),--seed $(call quoted,$(SEED))) $(ARGS)

progress: $(CORE) ## your attempts, hints and first passes, exercise by exercise (SUBMISSION= ARGS="--lang zh")
	@$(GRADER) progress --submission $(call quoted,$(SUBMISSION)) $(ARGS)

drill: $(CORE) ## draw a bug hunt from an exercise that you have passed (EX=ex05_causal_mask SUBMISSION= ARGS="--seed 4711 --again")
	@$(GRADER) drill $(EX) --submission $(call quoted,$(SUBMISSION)) --isolation $(ISOLATION) $(ARGS)

interview: $(CORE) ## a blank file, a clock, the verdict, three questions (MINUTES=30 EX=ex03_sdpa SEED= ARGS=--edit)
	@$(GRADER) interview $(EX) --minutes $(call quoted,$(MINUTES)) --isolation $(ISOLATION) $(if $(SEED),--seed $(call quoted,$(SEED))) $(ARGS)

reset: $(CORE) ## put the skeleton of an exercise back; your answer is kept beside it (EX=ex03_sdpa SUBMISSION=)
	@$(GRADER) reset $(EX) --submission $(call quoted,$(SUBMISSION)) $(ARGS)

doctor: $(CORE) ## say what this machine can do, and the cure for every problem (ARGS="--lang zh")
	@$(GRADER) doctor $(ARGS)

bench: $(CORE) ## only measure speed and memory, without the checks (EX= as for grade; ARGS="--benchmark-autosave --benchmark-compare")
	@$(GRADER) bench $(EX) --submission $(call quoted,$(SUBMISSION)) $(if $(DEVICE),--device $(DEVICE)) --isolation $(ISOLATION) $(if $(SEED),--seed $(SEED)) $(ARGS)

##@ To teach

release: $(NOTEBOOKS) ## build a nbgrader course and the bundle for students (OUT=out EX= COURSE=course.toml SEALED=1 ARGS="--lang zh --no-speed")
	@$(GRADER) release $(EX) -o $(call quoted,$(or $(OUT),out)) $(if $(DEVICE),--device $(DEVICE)) $(if $(SEALED),--sealed) $(ARGS)

collect: $(CORE) ## collect a class from clones, uploads or nbgrader (ROSTER=roster.csv SOURCE=clones OUT=submissions ARGS="--until ...")
	@$(GRADER) collect $(call quoted,$(or $(ROSTER),roster.csv)) $(call quoted,$(or $(SOURCE),clones)) -o $(call quoted,$(or $(OUT),submissions)) $(ARGS)

class: $(CORE) $(if $(CLUSTER),$(WITH_CLUSTER)) ## grade a class (SUBMISSION=submissions OUT=results EX= COURSE=course.toml JOBS= CLUSTER=address ARGS="--resume --no-speed")
	@$(GRADER) class $(call quoted,$(CLASS)) $(EX) -o $(call quoted,$(or $(OUT),results)) $(if $(DEVICE),--device $(DEVICE)) --isolation $(ISOLATION) $(if $(JOBS),--jobs $(JOBS)) $(if $(CLUSTER),--cluster $(call quoted,$(CLUSTER))) $(ARGS)

return: $(CORE) ## return the reports of a class (RESULTS=results ROSTER=roster.csv SOURCE= OUT=returned ARGS="--to branches --repositories clones")
	@$(GRADER) return $(call quoted,$(or $(RESULTS),results)) $(if $(ROSTER),--roster $(call quoted,$(ROSTER))) $(if $(SOURCE),--source $(call quoted,$(SOURCE))) -o $(call quoted,$(or $(OUT),returned)) $(ARGS)

similar: $(SIMILAR) ## list similar answers of a class, for a person to look at (SUBMISSION=submissions EX= OUT=similar.html ARGS="--also solutions")
	@$(GRADER) similar $(call quoted,$(CLASS)) $(EX) $(if $(OUT),-o $(call quoted,$(OUT))) $(ARGS)

##@ To write exercises, and prove them

new: $(CORE) ## write every file of a new exercise, as a draft, for its author to fill (EX=ex18_alibi)
	@$(GRADER) new $(EX) $(ARGS)

skeletons: $(CORE) ## write exercises/ and docs/lessons/ from solutions/ (changed answers are left alone)
	@$(GRADER) skeletons

mutants: $(DEV) ## check that every mistake fails its check and is named, and that right answers earn all points (EX= ARGS=--each)
	@$(GRADER) mutants $(EX) $(ARGS)

mechanical: $(DEV) ## change solutions one place at a time; a check must catch what matters (EX= SHARD=1/4 ARGS="--variants 2 --changed-only")
	@$(GRADER) mechanical $(EX) $(if $(SHARD),--shard $(SHARD)) $(ARGS)

headroom: $(DEV) ## print how near right answers come to being rejected (EX= SEEDS=20 ARGS=--no-variants)
	@$(GRADER) headroom $(EX) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

diagnose-trial: $(DEV) ## try the reports on wrong answers that no catalogue has; no name may be false (EX= ARGS="--changes all --list nothing")
	@$(GRADER) diagnose-trial $(EX) $(ARGS)

cheats: $(DEV) ## run every cheat behind every wall, and print the results (ARGS= for names)
	@$(PY) -m tests.cheats $(ARGS)

##@ To work on the project

test: $(DEV) ## run the project's own tests, and the proof of the suites (ARGS= goes to pytest)
ifeq ($(strip $(ARGS)),)
	@$(PY) -m pytest $(AT_ONCE)
	@$(GRADER) mechanical --changed-only
	@$(GRADER) mutants --changed-only
	@$(PY) -m pytest tests/timing/test_replay.py tests/proof
	@$(PY) -m pytest -n 2 --dist loadfile tests/cheats
else
	@$(PY) -m pytest $(ARGS)
endif

weekly: $(DEV) ## run what make test leaves out: kills, rehearsals, a cluster, timed cheats (hours)
	@$(PY) -m pytest -m weekly

lint: $(DEV) ## ruff and mypy
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

house: $(CORE) ## say what is not in order in the project, and the cure (ARGS=--laws prints the laws)
	@$(GRADER) house $(ARGS)

coverage: $(DEV) ## count the lines of grader/ that its tests run, also in workers behind *process*
	@$(PY) -m coverage erase
	@$(PY) -m coverage run -m pytest $(AT_ONCE)
	@$(PY) -W ignore -m coverage combine --quiet
	@rm -f .coverage.* # of processes that were killed while they wrote
	@$(PY) -m coverage report

gpu-check: ## run everything on CUDA, with the Python and torch that the machine has (EX=ex14 WITHIN=10 ARGS="--no-speed --rehearse --fresh")
	@$(or $(PYTHON),$(BASE_PYTHON)) -m grader.gpu_check $(EX) $(if $(WITHIN),--minutes $(call quoted,$(WITHIN))) $(ARGS)

picture: $(CORE) ## draw docs/report.svg from a real run, and the pictures of the lessons
	@$(PY) -m docs.picture
	@$(PY) -m docs.lesson_pictures

site: $(SITE) ## build the site of lessons and docs in out/site, and check its links (SITE_URL= where it will stand)
	@NO_MKDOCS_2_WARNING=1 SITE_URL=$(call quoted,$(SITE_URL)) $(PY) -m mkdocs build --quiet --strict -f docs/site/mkdocs.yml
	@NO_MKDOCS_2_WARNING=1 SITE_URL=$(call quoted,$(if $(SITE_URL),$(SITE_URL:%/=%)/zh/)) $(PY) -m mkdocs build --quiet --strict -f docs/site/zh.yml
	@$(PY) -m docs.site.dead_links out/site $(if $(SITE_URL),$(call quoted,$(SITE_URL)))
	@echo 'The site is in out/site. To look at it: $(PY) -m http.server --directory out/site'

wheel: $(CORE) ## build the wheel in dist/: a learner's commands and exercises without a clone
	@rm -f dist/*.whl
	@$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist .

print-install: # the command that installs, for those who want to see it
	@echo '$(INSTALL)'

clean: ## remove .venv and caches
	rm -rf .venv .grades .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ To measure it

bench-startup: $(DEV) ## time `make grade`, unchanged and anew, timed and not, beside a bare `import torch` (ARGS= for how many rounds)
	@$(PY) -m tests.bench.startup $(ARGS)

bench-walls: $(DEV) ## time what each wall costs, beside a fresh `import torch`
	@$(PY) -m tests.bench.walls

bench-watch: $(DEV) ## time from a save to the verdict
	@$(PY) -m tests.bench.watch

bench-learn: $(DEV) ## time from the command to a page that is ready, and from a pause to the verdict
	@$(PY) -m tests.bench.learn

bench-crossing: $(DEV) ## time the way to a worker and back, beside the reference (ARGS=cuda)
	@$(PY) -m tests.bench.crossing $(ARGS)

bench-steadiness: $(DEV) ## show how steady speed grades are, quiet and busy (ARGS= for how many gradings)
	@$(PY) -m tests.bench.steadiness $(ARGS)

bench-stopping: $(DEV) ## show that timing which stops early gives the points of all rounds (ARGS="5 busy")
	@$(PY) -m tests.bench.stopping $(ARGS)

bench-spinner: $(DEV) ## time the reference beside an answer that computes on between its calls (ARGS= how many sets, which wall)
	@$(PY) -m tests.bench.spinner $(ARGS)

bench-class: $(DEV) ## answers a minute for a class, how that grows, and what a second process brings (ARGS=1000)
	@$(PY) -m tests.bench.classes $(ARGS)

bench-similar: $(DEV) ## time the search for similar answers (ARGS= for how many students)
	@$(PY) -m tests.bench.similar $(ARGS)

bench-kernels: ## time the kernel in Triton beside PyTorch's on CUDA, with the torch that is there (ARGS=--tiles)
	@$(or $(PYTHON),$(BASE_PYTHON)) -m tests.bench.kernels $(ARGS)

bench-notebooks: $(DEV) ## seconds a student for notebooks, beside nbgrader's own executor (ARGS= for how many students)
	@$(PY) -m tests.bench.notebooks $(ARGS)

# PyTorch's own index is added only where pip has been told of no other place to look.
TORCH_INDEX = $(shell $(or $(wildcard $(VENV)/bin/python),$(BASE_PYTHON)) -m pip config list 2>/dev/null | grep -qE 'index-url|find-links|no-index' \
  || echo --extra-index-url https://download.pytorch.org/whl/$(if $(filter cuda,$(TORCH)),cu130,cpu))
INSTALL = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(TORCH_INDEX)

$(VENV)/bin/python:
	@echo "Making $(VENV) ..."
	@$(BASE_PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Name another: make BASE_PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@$(BASE_PYTHON) -m venv $(VENV)

$(VENV)/.installed-core-$(TORCH): pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing what grading needs (PyTorch for $(TORCH); a few minutes, once) ..."
	@$(VENV)/bin/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > $(VENV)/requirements.txt
	@if ls $(VENV)/.installed-core-* 2>/dev/null | grep -qv -- '-$(TORCH)$$'; then \
	  $(VENV)/bin/python -m pip uninstall --quiet --yes torch; rm -f $(VENV)/.installed-*; fi
	@$(INSTALL) -r $(VENV)/requirements.txt
	@touch $@

$(VENV)/.installed-%-$(TORCH): $(VENV)/.installed-core-$(TORCH)
	@echo "Installing what is needed beside that ($*) ..."
	@$(VENV)/bin/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['$*'], sep='\n')" > $(VENV)/requirements-$*.txt
	@$(INSTALL) -r $(VENV)/requirements-$*.txt
	@touch $@
