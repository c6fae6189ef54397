# `make help` lists the targets.
CARGO ?= cargo
SECONDS_TO_FUZZ ?= 3600

.DEFAULT_GOAL := help
.PHONY: help demo check lint-language test e2e e2e-build coverage faults generate image unpack bench bench-cluster fuzz

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## install, upgrade, repair and remove an operator on a new cluster (NODE=1: with a node that runs pods)
	@CARGO="$(CARGO)" NODE="$(NODE)" tests/demo.sh

check: ## check the format and the language, and lint and unit-test changed crates
	@CARGO="$(CARGO)" tests/check.sh

lint-language: ## check words and patterns that the project avoids
	@$(CARGO) test --locked --workspace --test language

test: ## check format, lints, licenses and generated files, and run the tests that need no node (without `make faults`)
	@CARGO="$(CARGO)" tests/all.sh

e2e: ## test the image on real nodes, with running operators and with OLM (needs root)
	@CARGO="$(CARGO)" tests/e2e.sh

e2e-build: ## build the programs of a node and of OLM, and the image, for `make e2e`
	@CARGO="$(CARGO)" tests/e2e-build.sh

coverage: ## run all tests with coverage (as root, also the e2e tests), and print the covered lines of each crate
	@CARGO="$(CARGO)" tests/coverage.sh

faults: ## run the tests of faults that take minutes: hundreds of kills, suspended replicas, dead connections
	@CARGO="$(CARGO)" tests/faults.sh

generate: ## rewrite the generated files
	tests/cluster/gotypes/generate.sh
	RUKPAK_DOCS=write $(CARGO) test --workspace --test cli -- docs transcripts
	RUKPAK_DOCS=write $(CARGO) test --workspace --test acceptance parity
	RUKPAK_GENERATE=write $(CARGO) test --workspace --test acceptance messages
	RUKPAK_GENERATE=write $(CARGO) test --workspace --test generated
	RUKPAK_GENERATE=write $(CARGO) test --workspace --test registry descriptors

image: ## build the provisioner's image, static and without a shell, as dist/image-ARCHITECTURE.tar
	@CARGO="$(CARGO)" image/build.sh

unpack: ## build the static binary of unpack Jobs, and print its path
	@CARGO="$(CARGO)" unpacker/build-static.sh

bench: ## measure the hot paths (RUKPAK_CORPUS: also over a directory of bundles)
	$(CARGO) bench -p manifests -p unpacker -p convert -p catalog -p provisioner -p cli --features catalog/registry,provisioner/jemalloc \
		--bench opm --bench yaml --bench catalogs --bench render --bench registry --bench store --bench unpack --bench bundles --bench objects --bench platform --bench serving

bench-cluster: ## measure the provisioner and upstream rukpak, each on a new control plane (RUKPAK_CORPUS: real bundles)
	$(CARGO) bench -p provisioner --features jemalloc --bench cluster

fuzz: ## mutate YAML, archives, bundles, catalogs and schemas for SECONDS_TO_FUZZ seconds each
	RUKPAK_FUZZ_SECONDS=$(SECONDS_TO_FUZZ) $(CARGO) test --profile fuzz -p manifests -p unpacker -p convert -p catalog -p apply fuzz -- --nocapture --test-threads=1
