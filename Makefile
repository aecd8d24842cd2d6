# Two commands need nothing done before them: `make demo` and `make test`. Each sets up what it needs first.

.PHONY: help setup setup-user demo test thorough test-quick spark-versions bench latency peers soak \
    scale account year check dev lock clean faults mutants old-nats-servers object-lock-store cloud-stores nats-clients kubernetes containers

BIN = .venv/bin
# Java as scripts/java.sh found it, the newest nats-server as scripts/nats-server.sh fetched it (NATS_SERVER overrules).
# Where Python is to write no compiled modules beside sources, it keeps them elsewhere: a process that compiles all that
# it imports takes three times as long to start.
RUN = if [ -d .nats3/java ]; then JAVA_HOME="$$(cd .nats3/java && pwd -P)"; export JAVA_HOME; fi; \
    if [ "$$PYTHONDONTWRITEBYTECODE" ]; then \
        unset PYTHONDONTWRITEBYTECODE; PYTHONPYCACHEPREFIX="$${PYTHONPYCACHEPREFIX:-$$PWD/.nats3/bytecode}"; \
        export PYTHONPYCACHEPREFIX; \
    fi; exec

help:
	@echo "make demo [UI=1]         archive and replay this host's logs, and compare every message"
	@echo "make test [ARGS=...]     the whole suite, or what pytest is told by ARGS"
	@echo "make thorough            what .ci/run leaves out of make test: clusters, JVMs, daemons, a browser"
	@echo "make test-quick          all of it that starts no cluster, JVM, browser or Dagster: minutes"
	@echo "make spark-versions [VERSIONS=\"4.0 4.1\"]   the tests of Spark on each version of PySpark"
	@echo "make bench [N=... ONLY=...]   speed and memory, side by side"
	@echo "make latency [ARGS=...]  how old a message is when it is archived, by the daemon's real loop"
	@echo "make peers [N=... ONLY=...]   beside nats, jet-capture-ndjson and nats3-server, where they are on the search path"
	@echo "make soak [MINUTES=30 RATE=20000 KILLS=120 SEED=1]   everything at once at full speed, with kills; every promise judged"
	@echo "make scale [WORKERS=1,2,4 MESSAGES=400000]   captures and replays on a Spark cluster of so many workers"
	@echo "make account [MESSAGES=...]   an account of 40 streams archived, destroyed and restored as of a moment"
	@echo "make year [N=... ONLY=...]   what everything costs beside an archive of years; N=10: a tenth of it"
	@echo "make faults [N=... SEED=... ONLY=... JOBS=...]   break everything, see whether a message is lost"
	@echo "make mutants [EACH=... SEED=... ONLY=... JOBS=... PURE=1]   change lines of the core, see whether a test fails"
	@echo "make old-nats-servers    nats-server 2.9.6 to 2.11, built with Go, for the tests that compare with them"
	@echo "make object-lock-store   versitygw, built with Go, for the tests of Object Lock"
	@echo "make nats-clients        libraries of JavaScript (npm) and the command nats (Go), for tests of the domain"
	@echo "make cloud-stores        Azurite (npm) and fake-gcs-server (Go), for the tests of Azure and Google"
	@echo "make kubernetes          deploy/kubernetes on the cluster of kubectl's context, if that is named for tests"
	@echo "make containers          the image, the stack of deploy/compose.yaml and the units of deploy/systemd, run in containers"
	@echo "make check               lint, types, layers, known holes of libraries"
	@echo "make dev                 NATS, Postgres, S3 and the Dagster UI on this machine"
	@echo "make setup               .venv with tests and tools, nats-server, Java; make demo and make dev do without the tools"
	@echo "make lock [UPGRADE=1]    compile requirements.lock and its parts again"
	@echo "make clean               remove what the above made; data under .nats3 too"

setup:
	@scripts/setup.sh all

setup-user:
	@scripts/setup.sh user

demo:
	@scripts/setup.sh demo
	@$(RUN) $(BIN)/nats3 demo $(if $(UI),--ui)

test: setup
	@scripts/chromium.sh .nats3/bin || true # without one, the browser tests say so: skipped, or in CI failed
	@scripts/pgbouncer.sh || true # as with Chromium
	@$(RUN) $(BIN)/python -m pytest $(ARGS)

thorough: setup
	@scripts/chromium.sh .nats3/bin || true
	@scripts/pgbouncer.sh || true
	@$(RUN) $(BIN)/python -m pytest -m thorough $(ARGS)

test-quick: setup
	@$(RUN) $(BIN)/python -m pytest -m "not slow" $(ARGS)

spark-versions: setup
	@scripts/spark-jars.sh .nats3/jars || true # without them, what needs them is left out
	@$(RUN) $(BIN)/python -m nats3_dagster_tests.spark_versions $(if $(VERSIONS),--versions "$(VERSIONS)") \
	    $(if $(ARGS),-- $(ARGS))

bench: setup
	@$(RUN) $(BIN)/python -m nats3_dagster_tests.bench $(if $(N),--messages $(N)) $(if $(ONLY),--only $(ONLY))
	@$(if $(ONLY),,$(RUN) $(BIN)/python -m nats3_dagster_tests.bench.api)
	@$(if $(ONLY),,$(RUN) $(BIN)/python -m nats3_dagster_tests.bench.points)
	@$(if $(ONLY),,$(RUN) $(BIN)/python -m nats3_dagster_tests.bench.domain)
	@$(if $(ONLY),,$(RUN) $(BIN)/python -m nats3_dagster_tests.bench.queues)
	@$(if $(ONLY),,$(RUN) $(BIN)/python -m nats3_dagster_tests.bench.subjects)
	@$(if $(ONLY),,$(RUN) $(BIN)/python -m nats3_dagster_tests.bench.exports)
	@$(if $(ONLY),,$(RUN) $(BIN)/python -m nats3_dagster_tests.bench.query)
	@$(if $(ONLY),,$(RUN) $(BIN)/python -m nats3_dagster_tests.bench.spark_sources)

latency: setup
	@$(RUN) $(BIN)/python -m nats3_dagster_tests.bench.latency $(ARGS)

peers: setup
	@$(RUN) $(BIN)/python -m nats3_dagster_tests.peers $(if $(N),--messages $(N)) $(if $(ONLY),--only $(ONLY)) $(ARGS)

soak: setup
	@$(RUN) $(BIN)/python -m nats3_dagster_tests.soak $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RATE),--rate $(RATE)) \
	    $(if $(KILLS),--kill-every $(KILLS)) $(if $(SEED),--seed $(SEED))

scale: setup
	@$(RUN) $(BIN)/python -m nats3_dagster_tests.scale $(if $(WORKERS),--workers $(WORKERS)) \
	    $(if $(MESSAGES),--messages $(MESSAGES))

account: setup
	@$(RUN) env MESSAGES=$(or $(MESSAGES),1000000) OBJECT_MB=$(or $(OBJECT_MB),64) \
		$(BIN)/python -m pytest -q -s -n 0 --timeout 1800 nats3_dagster_tests/integration/test_account_day.py

year: setup
	@$(RUN) $(BIN)/python -m nats3_dagster_tests.year $(if $(N),--part $(N)) $(if $(ONLY),--only $(ONLY))

dev: setup-user
	@$(RUN) $(BIN)/nats3 dev

faults: setup
	@$(RUN) $(BIN)/python -m nats3_dagster_tests.faults $(if $(N),N=$(N)) $(if $(SEED),SEED=$(SEED)) \
	    $(if $(ONLY),ONLY="$(ONLY)") $(if $(JOBS),JOBS=$(JOBS)) $(if $(TABLE),TABLE=$(TABLE)) $(if $(ROWS),ROWS=$(ROWS))

mutants: setup
	@$(RUN) $(BIN)/python -m nats3_dagster_tests.mutants $(if $(EACH),--each $(EACH)) $(if $(SEED),--seed $(SEED)) \
	    $(if $(ONLY),--only $(ONLY)) $(if $(JOBS),--jobs $(JOBS)) $(if $(PURE),--pure)

kubernetes: setup
	@NATS3_KUBERNETES=1; export NATS3_KUBERNETES; \
	    $(RUN) $(BIN)/python -m pytest -n 0 -s nats3_dagster_tests/deploy/test_cluster.py $(ARGS)

old-nats-servers:
	@scripts/old-nats-servers.sh .nats3/old-nats-servers $(if $(VERSIONS),$(VERSIONS),2.9.6 2.9.7 2.10.29 2.11.15)

# A store with Object Lock, for contract/test_object_lock.py, which is skipped without it. It needs Go.
object-lock-store:
	@GOBIN=$(CURDIR)/.nats3/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

# Servers that speak as Azure's and Google's stores do, for tests that are skipped without them.
nats-clients:
	@scripts/nats-clients.sh .nats3/clients

cloud-stores:
	@scripts/cloud-stores.sh .nats3/clouds

# Where no registry answers its S3 server is versitygw, which needs Go.
containers: setup
	@scripts/containers.sh .nats3/containers
	@set -a; . .nats3/containers/env; \
	    $(RUN) $(BIN)/python -m pytest -n 0 -s $(ARGS) nats3_dagster_tests/deploy/test_containers.py \
	    nats3_dagster_tests/deploy/test_systemd.py

# The types are checked by one process; the rest runs beside it.
check: setup
	@$(BIN)/basedpyright --level error & types=$$!; status=0; \
	for tool in "ruff check" "ruff format --check" "lint-imports --no-logo"; do $(BIN)/$$tool || status=1; done; \
	scripts/audit.sh $(BIN)/python || status=1; wait $$types || status=1; exit $$status

lock: setup
	@scripts/lock.sh

clean:
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m nats3_dagster.dev.stack stop; fi
	@rm -rf .venv .nats3 .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist
