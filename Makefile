# Everything that is done here is a target of this file; `make help` lists them; CI calls them too.
# A machine needs Python 3.11–3.13, make, git and the package registries. The rest is brought along, in .uv/ and .venv/.

UV_VERSION := 0.13.8
UV := .uv/bin/uv
BIN := .venv/bin
SYNCED := .venv/.citewire-synced
LITELLM := .citewire-bench/litellm.installed
CHECKOV := .citewire-bench/checkov.installed
FRAMEWORKS := .citewire-bench/frameworks.installed
MEMBERS := $(wildcard protos/pyproject.toml libs/*/pyproject.toml services/*/pyproject.toml gateway/pyproject.toml cli/pyproject.toml evaluation/pyproject.toml clients/*/pyproject.toml)
# All of the retriever's and the worker's; tests/unit/tooling/test_citus_tests.py finds what is missing.
CITUS_TESTS ?= $(addsuffix .py,$(addprefix tests/integration/test_,rls isolation permissions swept_accesses search term_counts \
	hidden_ids ingest_store ingest_worker enrichment backfill document_values fair_ingest filters ingest_further ingest_process \
	lexical_candidates recall stored_bytes topics ingest_own_provider enrichment_providers document_retention exports \
	erase_accounts citus_cluster citus_ingest citus_operate citus_plans citus_quality citus_copy citus_restore) \
	$(addprefix tests/contract/test_,corpus_enrichment corpus_fetch corpus_lists corpus_locate corpus_permissions corpus_rpc \
	corpus_spaces corpus_table_questions corpus_tables corpus_text_limit corpus_typed corpus_uploads corpus_watch \
	retriever_context retriever_process retriever_rpc retriever_words validity fair_uploads grpc_audit))
BENCHMARKS ?= $(filter-out upstream relay_services litellm_environment pdf_peer compare,$(notdir $(basename $(shell grep -l "__main__" benchmarks/[a-z]*.py))))

# The first Python that runs and is of a supported version (a version manager's shim may exist and not run). Its real
# path, outside any virtual environment: uv makes .venv anew when it is given another name of the same interpreter.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	"$$name" -c 'import sys; print(sys._base_executable) if (3, 11) <= sys.version_info < (3, 14) else sys.exit(1)' 2>/dev/null && break; done)

# The Python found above, never one that uv would download.
export UV_PYTHON = $(PYTHON)
export UV_PYTHON_DOWNLOADS ?= never
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Run
.PHONY: up
up: $(SYNCED) ## Start the whole stack here and load the sample library; Ctrl-C ends it
	@$(BIN)/citewire up $(ARGS)

##@ Check
.PHONY: test
test: $(SYNCED) ## Run all tests (ARGS="tests/unit -k name" for some)
	@$(MAKE) --no-print-directory -j3 $(LITELLM) $(CHECKOV) $(FRAMEWORKS)
	@$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

.PHONY: test-citus
test-citus: $(SYNCED) ## Run the retriever's tests on a Citus cluster, if ../shared/citus is there (CITUS_TESTS="…" for others)
	@$(BIN)/pytest --engine citus $(CITUS_TESTS) $(ARGS)

.PHONY: lint
lint: lint-style lint-types lint-imports lint-protos lint-openapi lint-clients lint-spelling lint-lock lint-web lint-workflows ## Check style, types, import boundaries, contracts and spelling

.PHONY: lint-style
lint-style: $(SYNCED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_ignores.py
	$(BIN)/python scripts/glossary.py
	@! git grep -nE '^ +Attributes:$$' -- '*.py' || { echo 'document fields below them, not in a list of attributes'; exit 1; }

.PHONY: lint-types
lint-types: $(SYNCED) $(FRAMEWORKS)
	$(BIN)/pyright
	$(BIN)/pyright --project integrations --pythonpath "$$($(BIN)/python -m scripts.frameworks_environment)"

.PHONY: lint-imports
lint-imports: $(SYNCED)
	$(BIN)/lint-imports

.PHONY: lint-protos
lint-protos: $(SYNCED)
	$(BIN)/buf lint protos
	$(BIN)/buf format protos --diff --exit-code
	$(BIN)/buf breaking protos --against baseline/protos.binpb
	$(BIN)/python scripts/proto.py --check
	$(BIN)/python -m scripts.service_clients --check

.PHONY: lint-openapi
lint-openapi: $(SYNCED)
	$(BIN)/python scripts/openapi.py --check
	$(BIN)/python -m scripts.python_client --check

.PHONY: lint-clients
lint-clients: $(SYNCED)
	$(BIN)/python scripts/client_table.py --check

.PHONY: lint-spelling
lint-spelling: $(SYNCED)
	git ls-files -z | xargs -0 $(BIN)/codespell

.PHONY: lint-lock
lint-lock: $(SYNCED)
	$(UV) lock --check
	$(BIN)/python scripts/notices.py --check

.PHONY: lint-web
lint-web: $(SYNCED)
	$(BIN)/python scripts/web.py --check

.PHONY: lint-workflows
lint-workflows: $(SYNCED)
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet .github/workflows

.PHONY: lint-commits
lint-commits: $(SYNCED) ## Check the messages of new commits (COMMITS="main..HEAD"; by default since origin/main)
	@$(BIN)/python scripts/check_commits.py $(COMMITS)

##@ Change
.PHONY: proto
proto: $(SYNCED) ## Generate the stubs beside the contracts
	@$(BIN)/buf format protos --write
	@$(BIN)/python scripts/proto.py
	@$(BIN)/python -m scripts.service_clients

.PHONY: openapi
openapi: $(SYNCED) ## Write docs/reference/openapi.json, and from it the Python client's models and methods
	@$(BIN)/python scripts/openapi.py
	@$(BIN)/python -m scripts.python_client

.PHONY: clients
clients: $(SYNCED) ## Write docs/clients.md from the tests of clients
	@$(BIN)/python scripts/client_table.py

.PHONY: web
web: $(SYNCED) ## Check, test and build the page of web/ into the gateway's package
	@$(BIN)/python scripts/web.py

.PHONY: pictures
pictures: $(SYNCED) ## Take the README's screenshots of the page (docs/pictures), with Chromium
	@PYTHONPATH=tests/support $(BIN)/python scripts/page_pictures.py

.PHONY: monitoring
monitoring: $(SYNCED) ## Write the dashboards and the rules of the objectives (deploy/monitoring)
	@$(BIN)/python -m scripts.monitoring
	@$(BIN)/python scripts/monitoring_component.py

.PHONY: format
format: $(SYNCED) ## Format the code and apply the linter's safe fixes
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	$(BIN)/buf format protos --write

##@ Measure
.PHONY: bench
bench: $(SYNCED) ## Measure side by side and print tables (BENCHMARKS="relay" for one)
	@for name in $(BENCHMARKS); do \
		echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

.PHONY: faults
faults: $(SYNCED) ## Run the long tests in full, printing the seed (ARGS="--seed 7" for another)
	@$(BIN)/pytest tests/faults $$(grep -rl --include='test_*.py' ProofScale tests | grep -v ^tests/faults/) --full --timeout 3600 $(ARGS)

##@ Release
.PHONY: baseline
baseline: $(SYNCED) ## Store the contracts with which `make lint` compares later ones; at each release
	@$(BIN)/buf build protos --exclude-source-info --output baseline/protos.binpb
	@$(BIN)/python scripts/openapi.py --baseline

.PHONY: wheels
wheels: $(SYNCED) ## Build a wheel of each package into dist/
	@rm -rf dist
	@$(UV) build --quiet --all-packages --wheel --out-dir dist
	@for package in integrations/*/pyproject.toml; do $(UV) build --quiet --wheel --out-dir dist $${package%/*} || exit 1; done

.PHONY: notices
notices: $(SYNCED) ## Write THIRD_PARTY_NOTICES.md from the lock
	@$(BIN)/python scripts/notices.py

##@ Deploy
.PHONY: images
images: $(SYNCED) ## Build the services' images by buildah, podman or docker (ARGS="--base debian" without a registry)
	@$(BIN)/python scripts/images.py $(ARGS)

.PHONY: rehearsal
rehearsal: $(SYNCED) ## Run the images as pods, and kill, cut off, roll and scale them, as root with podman (ARGS="roll kill" for some)
	@$(BIN)/python -m deploy.rehearsal --build $(ARGS)

##@ House
.PHONY: install
install: $(SYNCED) ## Install what the other targets need; they do it by themselves

.PHONY: clean
clean: ## Remove what was installed and built; data in .citewire/ stays
	rm -rf .venv .uv .citewire-bench .pytest_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -not -path './.citewire/*' -prune -exec rm -rf {} +

# Changed members and a changed lock install again; otherwise this costs one look at the files' times.
$(SYNCED): $(UV) uv.lock pyproject.toml $(MEMBERS)
	@echo "Installing the workspace into .venv/ ..."
	@env -u VIRTUAL_ENV $(UV) sync --frozen --quiet
	@touch $@

# LiteLLM's proxy, which some tests talk to, in an environment of its own. Without it, those tests fail and say why.
$(LITELLM): benchmarks/litellm-requirements.txt | $(SYNCED)
	@$(BIN)/python -m benchmarks.litellm_environment && touch $@ || true

# Checkov, which looks at the Kubernetes manifests, in the same way.
$(CHECKOV): deploy/k8s/tests/checkov-requirements.txt | $(SYNCED)
	@$(BIN)/python -m scripts.checkov_environment && touch $@ || true

# LangChain, LlamaIndex and Haystack, which the packages of integrations/ are tested with, in the same way.
$(FRAMEWORKS): integrations/requirements.txt | $(SYNCED)
	@$(BIN)/python -m scripts.frameworks_environment && touch $@ || true

$(UV): Makefile
	@if [ -z "$(PYTHON)" ]; then \
		echo "Citewire needs Python 3.11, 3.12 or 3.13, and found none on PATH." >&2; \
		echo "Install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; fi
	@if ! "$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null; then \
		echo "$(PYTHON) cannot make virtual environments: its venv or ensurepip module is missing." >&2; \
		echo "Install it (Debian, Ubuntu: apt-get install python3-venv), then run make again." >&2; exit 1; fi
	@if ! $@ --version 2>/dev/null | grep -q '^uv $(UV_VERSION) '; then \
		echo "Bringing uv $(UV_VERSION) into .uv/ ..."; rm -rf .uv && "$(PYTHON)" -m venv .uv && .uv/bin/python -m pip install --quiet uv==$(UV_VERSION); fi
	@touch $@
