# Every command of the project, one per line: what it needs; what it runs ## what it is for. `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
PY     := $(VENV)/bin/python
# Empty before make setup.
ALREADY_SET_UP := $(wildcard $(VENV)/.installed-dev)
# $(call needs,GROUP): a command needs a group of pyproject.toml. After make setup, or with ALL=1: all groups.
needs = $(VENV)/.installed-$(if $(ALL)$(ALREADY_SET_UP),dev,$(1))
INSTALL := $(PYTHON) -m build_tools.environment $(VENV)
# Only changed files; without a compiler (77) Python code runs instead.
COMPILE := $(PY) -W ignore -m build_tools.native_build || test $$? -eq 77
SDIST   := @rm -rf dist && KPRODUCER_NATIVE=0 $(PY) -W ignore setup.py --quiet sdist
CODEGEN  = @$(PY) -m codegen $(1) specs generated/kproducer_messages && KPRODUCER_KERNEL=pure $(PY) -m codegen.from_tables $(1)
# exec, because sh would not wait for the program after Ctrl-C.
RUN     := @exec $(PY) -m
# Of the variables that are set, $(call flags,SECURE) is --secure, and $(call options,KAFKA COUNT) --kafka 4.4.0 --count 9.
flags    = $(foreach name,$(1),$(if $($(name)),$(shell echo --$(name) | tr A-Z a-z)))
options  = $(foreach name,$(1),$(if $($(name)),$(call flags,$(name)) $($(name))))

.PHONY: $(shell sed -nE 's/^([a-z-]+):.* ## .*/\1/p' $(MAKEFILE_LIST))
help: ; @awk -F ':.* ## ' '/^[a-z-]+:.* ## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST) ## list the commands
$(VENV)/.installed-%: pyproject.toml build_tools/constraints.txt ; $(INSTALL) $*
setup: $(VENV)/.installed-dev ; @$(COMPILE) ## create the virtual environment (.venv) with all dependencies; others install what they need
kerberos: $(call needs,dev) ; @$(INSTALL) kerberos ## install what the Kerberos tests need: MIT Kerberos (on Debian, as root) and the package gssapi
browser: ; @$(INSTALL) browser ## install what the tests of the documentation site need: Chromium and its driver (on Debian, as root)
native: $(call needs,native) ; @$(PY) -W ignore -m build_tools.native_build ## compile the native core in place (only changed files)

# None of these needs the native core: with -j they run while it is compiled.
generate: $(call needs,codegen) ; $(call CODEGEN) ## compile specs/ into generated/, and tables of the package into the files that repeat them
generate-check: $(call needs,codegen) ; $(call CODEGEN,--check) ## fail if a generated file is out of date
docs: $(call needs,docs) ; $(RUN) sphinx -b html -W --keep-going --quiet docs docs/_build/html ## build the documentation site into docs/_build/html; warnings are errors
lint: $(call needs,lint) ; @$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/lint-imports && $(PY) -m build_tools.check_access ## style, and who may import and use what
types: $(call needs,types) ; $(RUN) mypy ## mypy, strict

test: test-native test-pure ## all tests with the native core, and those that depend on it also without; KPRODUCER_REQUIRE_KAFKA=1 fails without real brokers
test-native: $(call needs,dev) native ; $(RUN) tests.run_tests native $(PYTEST_ARGS) ## all tests with the native core
test-pure: $(call needs,dev) ; $(RUN) tests.run_tests pure $(PYTEST_ARGS) ## the tests that depend on the kernel with the pure one, on the newest Kafka
idempotence-chaos: $(call needs,dev) native ; $(RUN) tests.support.chaos.idempotence_chaos $(call options,SECONDS KAFKA) $(call flags,TLS) $(CHAOS_ARGS) ## idempotent producers under random faults (SECONDS=600, KAFKA=4.4.0, TLS=, CHAOS_ARGS=); checks the logs
transaction-chaos: $(call needs,dev) native ; $(RUN) tests.support.chaos.transaction_chaos $(call options,SECONDS KAFKA) $(call flags,TLS) $(CHAOS_ARGS) ## transactions under random faults (SECONDS=600, KAFKA=4.4.0, TLS=, CHAOS_ARGS=); checks what a consumer reads
duel: $(call needs,dev) native ; $(RUN) tests.support.duel $(call options,SECONDS CLIENTS SEED KAFKA) $(DUEL_ARGS) ## the same load and faults for several clients; compares the logs with what each client said (SECONDS=120, CLIENTS=kproducer,java, SEED=, KAFKA=4.4.0, DUEL_ARGS=)
exactly-once-chaos: $(call needs,dev) native ; $(RUN) tests.support.spark.exactly_once_chaos $(call options,BATCHES KILLS SECONDS KAFKA) $(CHAOS_ARGS) ## Spark queries in each format, and a pipeline, that are killed at every step; checks which rows and dead letters a consumer reads (BATCHES=200, KILLS=40, SECONDS=, KAFKA=4.4.0, CHAOS_ARGS=)
exactly-once-model: $(call needs,dev) ; $(RUN) tests.spark.exactly_once_model $(MODEL_ARGS) ## check every order of events in a model of Kafka and Spark with the real protocols (MODEL_ARGS=)
simulate: $(call needs,dev) native ; $(RUN) tests.simulation $(call options,SECONDS SEED SCHEDULES) $(call flags,EXHAUSTIVE MUTANTS) $(SIMULATE_ARGS) ## the whole producer and strict brokers on virtual time, under random faults and schedules (SECONDS=60, SEED=0, SCHEDULES=; EXHAUSTIVE=1: all combinations of a few faults)
interleavings: $(call needs,dev) ; $(RUN) tests.unit.kernel.interleavings $(MODEL_ARGS) ## every interleaving of callers and I/O thread in a model of the data plane, and bugs planted in it (MODEL_ARGS=)

# Unless make setup has done it, only the kernel is compiled.
demo: export KPRODUCER_NATIVE ?= $(if $(ALREADY_SET_UP),,cython)
demo: export KPRODUCER_INTERPRETED ?= $(if $(ALREADY_SET_UP),,1)
demo: $(call needs,demo) $(if $(SPARK),$(call needs,spark)) ; @$(COMPILE) && exec $(PY) -m examples.demo $(call options,KAFKA BOOTSTRAP COUNT INPUT) $(call flags,SECURE SPARK) $(DEMO_ARGS) ## send a million events to an embedded broker with kproducer and confluent-kafka, and check each (KAFKA=4.4.0, SECURE=1, BOOTSTRAP=host:port, COUNT=, INPUT=; SPARK=1: a Spark job, too)
record-demo: $(call needs,demo) native ; $(RUN) docs.record_demo ## run the demo and write what it prints into docs/images/demo.svg
broker: $(call needs,demo) ; $(RUN) tests.support.kafka.run_broker $(KAFKA) $(call options,NODES PORT) $(call flags,SECURE) ## run Apache Kafka until Ctrl-C (KAFKA=4.4.0, NODES=1, PORT=; SECURE=1: with TLS) and print how to reach it
bench: $(call needs,dev) native ; @$(PY) -m benchmarks $(BENCH_SECONDS:%=--seconds %) $(BENCH_ARGS) && $(PY) -m benchmarks.spark_sinks $(SPARK_BENCH_ARGS) && $(PY) -m benchmarks.codecs ## measure every client on every workload, with the embedded cluster and Apache Kafka (BENCH_SECONDS=1050, BENCH_ARGS=)
bench-secured: $(call needs,dev) native ; $(RUN) benchmarks.secured $(SECURED_ARGS) ## measure kproducer and confluent-kafka on Apache Kafka with and without SASL_SSL (4 minutes; SECURED_ARGS=)
performance: ; @$(MAKE) bench BENCH_ARGS="--document $(BENCH_ARGS)" ## make bench, and write its tables and plots into docs/performance.md and README.md

# WHEEL_CFLAGS=-O1 is for .ci/run, which is interested in what a wheel contains and not in its speed.
wheel: $(call needs,native) ; $(SDIST) && $(if $(WHEEL_CFLAGS),CFLAGS='$(WHEEL_CFLAGS)') KPRODUCER_REQUIRE_NATIVE=1 $(PY) -m pip wheel --quiet --no-deps --wheel-dir dist dist/*.tar.gz && $(PY) -m tests.packaging.wheel_check dist/*.whl ## build a wheel with the native core into dist/, and run the demo from it without a compiler
wheels: $(call needs,dev) ; $(SDIST) && exec $(PY) -m build_tools.build_wheels $(WHEEL_MACHINE:%=--machine %) dist/*.tar.gz $(PYTHONS) ## build wheels for manylinux and musllinux with zig's C compiler and the Pythons found into dist/ (PYTHONS=python3.10 ..., WHEEL_MACHINE=aarch64)
sanitize: $(call needs,dev) ; $(RUN) build_tools.sanitize $(SANITIZE_TESTS) ## test the native core under gcc's address and undefined-behaviour sanitizers (in build/sanitized)
clean: ; @rm -rf $(VENV) build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info && find kproducer generated -name '*.so' -delete ## remove build artifacts (not the cache of broker artifacts)
