# Every command of the project. `make help` lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help setup kerberos browser native docs generate generate-check lint types test test-native test-pure idempotence-chaos transaction-chaos duel exactly-once-chaos exactly-once-model simulate demo record-demo broker bench bench-secured performance wheel wheels sanitize clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	@touch $@

# The package and a group of pyproject.toml. With -j, one pip at a time in an environment.
$(VENV)/.installed-%: pyproject.toml build_tools/constraints.txt | $(VENV)/.created
	KPRODUCER_NATIVE=0 PYTHONWARNINGS=ignore $(if $(shell command -v flock),flock $(VENV)/.created) \
		$(PY) -m pip install --quiet -c build_tools/constraints.txt -e '.[$*]'
	@touch $@

# $(call needs,GROUP): what a command needs. After make setup, or with ALL=1: all groups.
needs = $(VENV)/.installed-$(if $(ALL)$(wildcard $(VENV)/.installed-dev),dev,$(1))

# Only changed files; without a compiler (77) Python code runs instead.
COMPILE := -W ignore -m build_tools.native_build || test $$? -eq 77

setup: $(VENV)/.installed-dev ## create the virtual environment (.venv) with all dependencies; others install what they need
	@$(PY) $(COMPILE)

# $(call install_packages,PROGRAMS,PACKAGES): Debian packages, if one of the programs is missing. One at a time on a machine:
# an `apt-get update` may delete the packages that another apt-get has just downloaded.
define install_packages
	@export PATH="$$PATH:/usr/sbin" DEBIAN_FRONTEND=noninteractive; \
	for program in $(1); do \
		command -v $$program >/dev/null && continue; \
		flock /tmp/kproducer-apt.lock sh -c 'apt-get update --quiet=2 && \
			apt-get install --quiet=2 --yes --no-install-recommends $(2)' || exit; \
		break; \
	done
endef

# Beside Debian's packages: gssapi is compiled with their headers. Not part of setup, which works without Kerberos.
$(VENV)/.kerberos: $(call needs,dev)
	$(call install_packages,krb5kdc kdb5_util kadmin.local kinit krb5-config,krb5-kdc krb5-admin-server krb5-user libkrb5-dev)
	$(PY) -m pip install --quiet -c build_tools/constraints.txt 'gssapi>=1.9'
	@touch $@

kerberos: $(VENV)/.kerberos ## install what the Kerberos tests need: MIT Kerberos (on Debian, as root) and the package gssapi

# GitHub's runners have Chrome; their Ubuntu has Chromium only as a snap.
BROWSER := $(if $(shell command -v google-chrome),google-chrome,chromium)
browser: ## install what the tests of the documentation site need: Chromium and its driver (on Debian, as root)
	$(call install_packages,$(BROWSER) chromedriver,chromium chromium-driver)

native: $(call needs,native) ## compile the native core in place (only changed files)
	@$(PY) -W ignore -m build_tools.native_build

generate: $(call needs,codegen) ## compile specs/ into generated/, and tables of the package into the files that repeat them
	$(PY) -m codegen specs generated/kproducer_messages
	KPRODUCER_KERNEL=pure $(PY) -m codegen.from_tables

# None of these needs the native core: with -j they run while it is compiled.
generate-check: $(call needs,codegen) ## fail if a generated file is out of date
	$(PY) -m codegen --check specs generated/kproducer_messages
	KPRODUCER_KERNEL=pure $(PY) -m codegen.from_tables --check

docs: $(call needs,docs) ## build the documentation site into docs/_build/html; warnings are errors
	$(PY) -m sphinx -b html -W --keep-going --quiet docs docs/_build/html

lint: $(call needs,lint) ## style and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(call needs,types) ## mypy, strict
	$(BIN)/mypy

# Tests wait more than they compute, so there are more processes than cores. Each process runs a contiguous part of the list,
# because brokers that several files share are started once per process and version. JOBS=0 runs all tests in one process.
JOBS      ?= 4
TEST_JOBS  = -n $(JOBS) --dist worksteal
# Every process that the tests start imports the same modules: compile them once, even if the environment
# disables bytecode caches. This also lets pytest cache its rewritten test modules.
test-native test-pure: export PYTHONDONTWRITEBYTECODE =
# The pure kernel affects how records get into batches and how batches are completed. Everything else runs once,
# with the native core; tests/unit/kernel, tests/unit/network and tests/codegen compare both implementations.
PURE_SCENARIOS := callbacks close_and_flush delivery idempotence interrupted_calls memory_bound memory_limits resource_limits \
	send_arrow send_arrow_formats send_many send_many_and_send sender_retries sending_in_transactions
PURE_TESTS := tests/unit/records tests/unit/accumulator tests/unit/bulk tests/unit/sending tests/unit/sender \
	tests/unit/test_kafka_producer.py $(PURE_SCENARIOS:%=tests/scenarios/test_%.py) \
	tests/simulation/test_random_plans.py tests/wire_compat/test_round_trips.py tests/spark/test_partition_writer.py \
	tests/spark/test_batch_sink.py

# Compiled modules are tested as they are installed. Tests that replace or interrupt parts of them run the sources.
INTERPRETED_TESTS := tests/unit tests/spark/test_partition_writer.py \
	$(patsubst %,tests/scenarios/test_%.py,fast_send_agrees interrupted_calls sending_in_transactions)

test: test-native test-pure ## all tests with the native core, and those that depend on it also without; KPRODUCER_REQUIRE_KAFKA=1 fails without real brokers

test-native: $(call needs,dev) native ## all tests with the native core
	KPRODUCER_KERNEL=native KPRODUCER_INTERPRETED=1 $(BIN)/pytest $(TEST_JOBS) $(INTERPRETED_TESTS) $(PYTEST_ARGS)
	KPRODUCER_KERNEL=native $(BIN)/pytest $(TEST_JOBS) $(INTERPRETED_TESTS:%=--ignore=%) $(PYTEST_ARGS)

test-pure: $(call needs,dev) ## the tests that depend on the kernel with the pure one, on the newest Kafka
	KPRODUCER_KERNEL=pure KPRODUCER_KAFKA_VERSIONS=$(or $(KPRODUCER_KAFKA_VERSIONS),4.4.0) \
		$(BIN)/pytest $(TEST_JOBS) $(PURE_TESTS) $(PYTEST_ARGS)

idempotence-chaos: $(call needs,dev) native ## idempotent producers under random faults (SECONDS=600, KAFKA=4.4.0, CHAOS_ARGS=); checks the logs
	@$(PY) -m tests.support.chaos.idempotence_chaos $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(KAFKA),--kafka $(KAFKA)) $(CHAOS_ARGS)

transaction-chaos: $(call needs,dev) native ## transactions under random faults (SECONDS=600, KAFKA=4.4.0, CHAOS_ARGS=); checks what a consumer reads
	@$(PY) -m tests.support.chaos.transaction_chaos $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(KAFKA),--kafka $(KAFKA)) $(CHAOS_ARGS)

duel: $(call needs,dev) native ## the same load and faults for several clients; compares the logs with what each client said (SECONDS=120, CLIENTS=kproducer,java, SEED=, KAFKA=4.4.0, DUEL_ARGS=)
	@$(PY) -m tests.support.duel $(if $(SECONDS),--seconds $(SECONDS)) $(if $(CLIENTS),--clients $(CLIENTS)) \
		$(if $(SEED),--seed $(SEED)) $(if $(KAFKA),--kafka $(KAFKA)) $(DUEL_ARGS)

exactly-once-chaos: $(call needs,dev) native ## a Spark query that is killed at every step; checks what a consumer reads (BATCHES=200, KILLS=32, SECONDS=, KAFKA=4.4.0, CHAOS_ARGS=)
	@$(PY) -m tests.support.spark.exactly_once_chaos $(if $(BATCHES),--batches $(BATCHES)) $(if $(KILLS),--kills $(KILLS)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(KAFKA),--kafka $(KAFKA)) $(CHAOS_ARGS)

exactly-once-model: $(call needs,dev) ## check every order of events in a model of Kafka and Spark with the real protocols (MODEL_ARGS=)
	@$(PY) -m tests.spark.exactly_once_model $(MODEL_ARGS)

simulate: $(call needs,dev) native ## the whole producer and strict brokers on virtual time, under random faults and schedules (SECONDS=60, SEED=0, SCHEDULES=; EXHAUSTIVE=1: all combinations of a few faults)
	@$(PY) -m tests.simulation $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) \
		$(if $(SCHEDULES),--schedules $(SCHEDULES)) $(if $(EXHAUSTIVE),--exhaustive) $(if $(MUTANTS),--mutants) $(SIMULATE_ARGS)

# The kernel is compiled, and the client around it is not, unless make setup has done it.
ifeq ($(wildcard $(VENV)/.installed-dev),)
demo: export KPRODUCER_INTERPRETED ?= 1
demo: export KPRODUCER_NATIVE ?= cython
endif
demo: $(call needs,demo) $(if $(SPARK),$(call needs,spark)) ## send a million events to an embedded broker with kproducer and confluent-kafka, and check each (KAFKA=4.4.0, SECURE=1, BOOTSTRAP=host:port, COUNT=, INPUT=; SPARK=1: a Spark job, too)
	@$(PY) $(COMPILE)
	@$(PY) -m examples.demo $(if $(KAFKA),--kafka $(KAFKA)) $(if $(SECURE),--secure) \
		$(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP)) $(if $(COUNT),--count $(COUNT)) $(if $(INPUT),--input $(INPUT)) $(if $(SPARK),--spark) $(DEMO_ARGS)

record-demo: $(call needs,demo) native ## run the demo and write what it prints into docs/images/demo.svg
	@$(PY) -m docs.record_demo

broker: $(call needs,demo) ## run Apache Kafka until Ctrl-C (KAFKA=4.4.0, NODES=1, PORT=; SECURE=1: with TLS) and print how to reach it
	@$(PY) -m tests.support.kafka.run_broker $(or $(KAFKA),$(KAFKA_VERSION)) $(if $(NODES),--nodes $(NODES)) $(if $(PORT),--port $(PORT)) $(if $(SECURE),--secure)

bench: $(call needs,dev) native ## measure every client on every workload, with the embedded cluster and Apache Kafka (BENCH_SECONDS=900, BENCH_ARGS=)
	@$(PY) -m benchmarks $(if $(BENCH_SECONDS),--seconds $(BENCH_SECONDS)) $(BENCH_ARGS)
	@$(PY) -m benchmarks.spark_sinks $(SPARK_BENCH_ARGS)
	@$(PY) -m benchmarks.codecs

bench-secured: $(call needs,dev) native ## measure kproducer and confluent-kafka on Apache Kafka with and without SASL_SSL (4 minutes; SECURED_ARGS=)
	@$(PY) -m benchmarks.secured $(SECURED_ARGS)

performance: ## make bench, and write its tables and plots into docs/performance.md and README.md
	@$(MAKE) bench BENCH_ARGS="--document $(BENCH_ARGS)"

# WHEEL_CFLAGS=-O1 is for .ci/run, which is interested in what a wheel contains and not in its speed.
wheel: $(call needs,native) ## build a wheel with the native core into dist/, and run the demo from it without a compiler
	rm -rf dist
	$(PY) -W ignore -c 'import setuptools; setuptools.setup()' --quiet sdist
	$(if $(WHEEL_CFLAGS),CFLAGS=$(WHEEL_CFLAGS)) KPRODUCER_REQUIRE_NATIVE=1 $(PY) -m pip wheel --quiet --no-deps --wheel-dir dist dist/*.tar.gz
	$(PY) -m tests.packaging.wheel_check dist/*.whl

# Without containers, so also where cibuildwheel (.github/workflows/release.yml) cannot run.
wheels: $(call needs,dev) ## build wheels for manylinux and musllinux with zig's C compiler and the Pythons found into dist/ (PYTHONS=python3.10 ..., WHEEL_MACHINE=aarch64)
	rm -rf dist
	KPRODUCER_NATIVE=0 $(PY) -W ignore -c 'import setuptools; setuptools.setup()' --quiet sdist
	$(PY) -m build_tools.build_wheels $(if $(WHEEL_MACHINE),--machine $(WHEEL_MACHINE)) dist/*.tar.gz $(PYTHONS)

SANITIZERS     := -fsanitize=address,undefined -fno-sanitize-recover=all
# Sanitizers keep freed memory for a while, so memory limits do not hold.
SANITIZE_TESTS ?= tests/unit tests/testing tests/scenarios tests/codegen
sanitize: $(call needs,dev) ## test the native core under gcc's address and undefined-behaviour sanitizers (in build/sanitized)
	rm -rf build/sanitized && mkdir -p build/sanitized
	git ls-files --cached --others --exclude-standard | tar -cf - -T - | tar -xf - -C build/sanitized
	cd build/sanitized && CFLAGS="$(SANITIZERS) -O1 -g" LDFLAGS="$(SANITIZERS)" $(abspath $(PY)) -W ignore -m build_tools.native_build
	cd build/sanitized && KPRODUCER_KERNEL=native PYTHONPATH="$$PWD:$$PWD/generated" PYTHONMALLOC=malloc \
		LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
		ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:log_path=$$PWD/report" \
		UBSAN_OPTIONS="print_stacktrace=1:log_path=$$PWD/report" \
		$(abspath $(PY)) -m pytest -m 'not kafka' -p no:cacheprovider \
		--deselect tests/scenarios/test_memory_bound.py $(SANITIZE_TESTS)
	@if grep -l 'ERROR: AddressSanitizer\|runtime error' build/sanitized/report.* 2>/dev/null; then exit 1; fi

clean: ## remove build artifacts (not the cache of broker artifacts)
	rm -rf $(VENV) build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	find kproducer generated -name '*.so' -delete -o -name '*.c' -delete
