# All there is to know: `make help`.
CARGO ?= cargo
SECONDS_TO_FUZZ ?= 3600

.DEFAULT_GOAL := help
.PHONY: help demo test e2e faults generate image unpack bench bench-cluster fuzz

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## an operator installed, upgraded, repaired and removed, on a cluster of its own
	@CARGO="$(CARGO)" tests/demo.sh

test: ## what CI runs first: format, lints, licences, generated files, all tests
	@CARGO="$(CARGO)" tests/all.sh

e2e: ## the image on a real node: installed by its file, with operators that run (needs root)
	@CARGO="$(CARGO)" tests/e2e.sh

faults: ## faults that take minutes: a hundred kills, sleeping replicas, dead connections
	@CARGO="$(CARGO)" tests/faults.sh

generate: ## rewrite the files that are made from others
	tests/cluster/gotypes/generate.sh
	RUKPAK_DOCS=write $(CARGO) test -p cli --test cli docs
	RUKPAK_GENERATE=write $(CARGO) test -p manifests --features api --test generated
	RUKPAK_GENERATE=write $(CARGO) test -p catalog --features registry --test registry descriptors

image: ## build the provisioner's image, static and without a shell, as dist/image-ARCHITECTURE.tar
	@CARGO="$(CARGO)" image/build.sh

unpack: ## build the static binary of unpack Jobs, and print where it is
	@CARGO="$(CARGO)" unpacker/build-static.sh

bench: ## measure the hot paths (RUKPAK_CORPUS: also over a folder of bundles)
	$(CARGO) bench -p manifests -p unpacker -p convert -p catalog -p provisioner -p cli --features catalog/registry \
		--bench opm --bench yaml --bench catalogs --bench render --bench registry --bench store --bench unpack --bench bundles --bench objects --bench platform --bench serving

bench-cluster: ## measure the provisioner and rukpak's own on a control plane each (RUKPAK_CORPUS: real bundles)
	$(CARGO) bench -p provisioner --bench cluster

fuzz: ## mutate YAML, archives, bundles and catalogs for SECONDS_TO_FUZZ seconds each
	RUKPAK_FUZZ_SECONDS=$(SECONDS_TO_FUZZ) $(CARGO) test --profile fuzz -p manifests -p unpacker -p convert -p catalog fuzz -- --nocapture --test-threads=1
