# Every command of the project. `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
PY     := $(VENV)/bin/python
# Empty before make setup.
ALREADY_SET_UP := $(wildcard $(VENV)/.installed-dev)
# $(call needs,GROUP): a command needs a group of pyproject.toml. After make setup, or with ALL=1: all groups.
needs = $(VENV)/.installed-$(if $(ALL)$(ALREADY_SET_UP),dev,$(1))
# Only changed files; without a compiler (77) Python code runs instead.
COMPILE := $(PY) -W ignore -m build_tools.native_build || test $$? -eq 77
SDIST   := rm -rf dist && KPRODUCER_NATIVE=0 $(PY) -W ignore setup.py --quiet sdist

.PHONY: $(shell sed -nE 's/^([a-z-]+):.*## .*/\1/p' $(MAKEFILE_LIST))
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed-%: pyproject.toml build_tools/constraints.txt
	$(PYTHON) -m build_tools.environment $(VENV) $*
setup: $(VENV)/.installed-dev ## create the virtual environment (.venv) with all dependencies; others install what they need
	@$(COMPILE)
kerberos: $(call needs,dev) ## install what the Kerberos tests need: MIT Kerberos (on Debian, as root) and the package gssapi
	$(PYTHON) -m build_tools.environment $(VENV) kerberos
browser: ## install what the tests of the documentation site need: Chromium and its driver (on Debian, as root)
	$(PYTHON) -m build_tools.environment $(VENV) browser
native: $(call needs,native) ## compile the native core in place (only changed files)
	@$(PY) -W ignore -m build_tools.native_build

# None of these needs the native core: with -j they run while it is compiled.
generate: $(call needs,codegen) ## compile specs/ into generated/, and tables of the package into the files that repeat them
	$(PY) -m codegen specs generated/kproducer_messages && KPRODUCER_KERNEL=pure $(PY) -m codegen.from_tables
generate-check: $(call needs,codegen) ## fail if a generated file is out of date
	$(PY) -m codegen --check specs generated/kproducer_messages && KPRODUCER_KERNEL=pure $(PY) -m codegen.from_tables --check
docs: $(call needs,docs) ## build the documentation site into docs/_build/html; warnings are errors
	$(PY) -m sphinx -b html -W --keep-going --quiet docs docs/_build/html
lint: $(call needs,lint) ## style, and who may import and use what
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/lint-imports && $(PY) -m build_tools.check_access
types: $(call needs,types) ## mypy, strict
	$(VENV)/bin/mypy

test: test-native test-pure ## all tests with the native core, and those that depend on it also without; KPRODUCER_REQUIRE_KAFKA=1 fails without real brokers
test-native: $(call needs,dev) native ## all tests with the native core
	$(PY) -m tests.run_tests native $(PYTEST_ARGS)
test-pure: $(call needs,dev) ## the tests that depend on the kernel with the pure one, on the newest Kafka
	$(PY) -m tests.run_tests pure $(PYTEST_ARGS)
idempotence-chaos: $(call needs,dev) native ## idempotent producers under random faults (SECONDS=600, KAFKA=4.4.0, CHAOS_ARGS=); checks the logs
	@$(PY) -m tests.support.chaos.idempotence_chaos $(SECONDS:%=--seconds %) $(KAFKA:%=--kafka %) $(CHAOS_ARGS)
transaction-chaos: $(call needs,dev) native ## transactions under random faults (SECONDS=600, KAFKA=4.4.0, CHAOS_ARGS=); checks what a consumer reads
	@$(PY) -m tests.support.chaos.transaction_chaos $(SECONDS:%=--seconds %) $(KAFKA:%=--kafka %) $(CHAOS_ARGS)
duel: $(call needs,dev) native ## the same load and faults for several clients; compares the logs with what each client said (SECONDS=120, CLIENTS=kproducer,java, SEED=, KAFKA=4.4.0, DUEL_ARGS=)
	@$(PY) -m tests.support.duel $(SECONDS:%=--seconds %) $(CLIENTS:%=--clients %) $(SEED:%=--seed %) $(KAFKA:%=--kafka %) $(DUEL_ARGS)
exactly-once-chaos: $(call needs,dev) native ## a Spark query that is killed at every step; checks what a consumer reads (BATCHES=200, KILLS=32, SECONDS=, KAFKA=4.4.0, CHAOS_ARGS=)
	@$(PY) -m tests.support.spark.exactly_once_chaos $(BATCHES:%=--batches %) $(KILLS:%=--kills %) $(SECONDS:%=--seconds %) $(KAFKA:%=--kafka %) $(CHAOS_ARGS)
exactly-once-model: $(call needs,dev) ## check every order of events in a model of Kafka and Spark with the real protocols (MODEL_ARGS=)
	@$(PY) -m tests.spark.exactly_once_model $(MODEL_ARGS)
simulate: $(call needs,dev) native ## the whole producer and strict brokers on virtual time, under random faults and schedules (SECONDS=60, SEED=0, SCHEDULES=; EXHAUSTIVE=1: all combinations of a few faults)
	@$(PY) -m tests.simulation $(SECONDS:%=--seconds %) $(SEED:%=--seed %) $(SCHEDULES:%=--schedules %) $(if $(EXHAUSTIVE),--exhaustive) $(if $(MUTANTS),--mutants) $(SIMULATE_ARGS)

# exec, because sh would not wait for the demo after Ctrl-C. Unless make setup has done it, only the kernel is compiled.
demo: export KPRODUCER_NATIVE ?= $(if $(ALREADY_SET_UP),,cython)
demo: export KPRODUCER_INTERPRETED ?= $(if $(ALREADY_SET_UP),,1)
demo: $(call needs,demo) $(if $(SPARK),$(call needs,spark)) ## send a million events to an embedded broker with kproducer and confluent-kafka, and check each (KAFKA=4.4.0, SECURE=1, BOOTSTRAP=host:port, COUNT=, INPUT=; SPARK=1: a Spark job, too)
	@$(COMPILE) && exec $(PY) -m examples.demo $(KAFKA:%=--kafka %) $(if $(SECURE),--secure) $(BOOTSTRAP:%=--bootstrap %) $(COUNT:%=--count %) $(if $(INPUT),--input $(INPUT)) $(if $(SPARK),--spark) $(DEMO_ARGS)
record-demo: $(call needs,demo) native ## run the demo and write what it prints into docs/images/demo.svg
	@$(PY) -m docs.record_demo
broker: $(call needs,demo) ## run Apache Kafka until Ctrl-C (KAFKA=4.4.0, NODES=1, PORT=; SECURE=1: with TLS) and print how to reach it
	@$(PY) -m tests.support.kafka.run_broker $(or $(KAFKA),$(KAFKA_VERSION)) $(NODES:%=--nodes %) $(PORT:%=--port %) $(if $(SECURE),--secure)
bench: $(call needs,dev) native ## measure every client on every workload, with the embedded cluster and Apache Kafka (BENCH_SECONDS=900, BENCH_ARGS=)
	@$(PY) -m benchmarks $(BENCH_SECONDS:%=--seconds %) $(BENCH_ARGS)
	@$(PY) -m benchmarks.spark_sinks $(SPARK_BENCH_ARGS)
	@$(PY) -m benchmarks.codecs
bench-secured: $(call needs,dev) native ## measure kproducer and confluent-kafka on Apache Kafka with and without SASL_SSL (4 minutes; SECURED_ARGS=)
	@$(PY) -m benchmarks.secured $(SECURED_ARGS)
performance: ## make bench, and write its tables and plots into docs/performance.md and README.md
	@$(MAKE) bench BENCH_ARGS="--document $(BENCH_ARGS)"

# WHEEL_CFLAGS=-O1 is for .ci/run, which is interested in what a wheel contains and not in its speed.
wheel: $(call needs,native) ## build a wheel with the native core into dist/, and run the demo from it without a compiler
	$(SDIST) && $(if $(WHEEL_CFLAGS),CFLAGS='$(WHEEL_CFLAGS)') KPRODUCER_REQUIRE_NATIVE=1 $(PY) -m pip wheel --quiet --no-deps --wheel-dir dist dist/*.tar.gz
	$(PY) -m tests.packaging.wheel_check dist/*.whl
wheels: $(call needs,dev) ## build wheels for manylinux and musllinux with zig's C compiler and the Pythons found into dist/ (PYTHONS=python3.10 ..., WHEEL_MACHINE=aarch64)
	$(SDIST) && exec $(PY) -m build_tools.build_wheels $(WHEEL_MACHINE:%=--machine %) dist/*.tar.gz $(PYTHONS)
sanitize: $(call needs,dev) ## test the native core under gcc's address and undefined-behaviour sanitizers (in build/sanitized)
	$(PY) -m build_tools.sanitize $(SANITIZE_TESTS)
clean: ## remove build artifacts (not the cache of broker artifacts)
	rm -rf $(VENV) build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info && find kproducer generated -name '*.so' -delete -o -name '*.c' -delete
