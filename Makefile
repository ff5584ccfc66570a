# On a fresh machine with cargo and Python 3, `make demo` and `make test` set up what they need by themselves.

# `cargo nextest` where it is installed: it runs the tests of all files in parallel. Most of them wait for a server or a
# clock, so there are twice as many at once as processors.
AT_ONCE := $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
# RETRIES=1 runs a failed test once more, and names it as flaky if it passes then.
TESTS := $(if $(shell command -v cargo-nextest),cargo nextest run --test-threads $(AT_ONCE) $(addprefix --retries=,$(RETRIES)),cargo test)
# To see what a passing test tells.
TOLD := $(if $(shell command -v cargo-nextest),--no-capture,-- --nocapture)
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help demo test lint test-browser test-matrix docs deb package-test bench soak

help: ## what there is
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: ## the console on a private server with a simulated fleet; without a terminal, a summary of it
	cargo build --profile demo --locked
	@server=$$(scripts/ensure-server) && if [ -t 0 ] && [ -t 1 ]; then headless=; else headless=--headless; fi && \
		$(TARGET)/demo/lockscope demo --server "$$server" $$headless

test: lint ## all tests, on real servers, with the real lock libraries
	@scripts/ensure-server >/dev/null
	@scripts/ensure-libs
	@scripts/ensure-prometheus >/dev/null || true
	@rm -f $(TARGET)/left-out
	$(TESTS) --locked
	@scripts/left-out

test-browser: ## the page of an incident in a headless Chromium, fetched under target/ (300 MB)
	@browser=$$(scripts/ensure-browser) && LOCKSCOPE_BROWSER="$$browser" cargo test --locked --test browser -- --ignored

lint: ## formatting and clippy
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings

test-matrix: ## the tests on every server version that can be had
	@scripts/ensure-libs
	@scripts/test-matrix

docs: ## the pictures of README and docs, from real runs of the demo (two minutes)
	@server=$$(scripts/ensure-server) && cargo run --release --locked --example pictures docs/pictures "$$server"
	cargo test --locked --test moving_picture -- --ignored

deb: ## a Debian package with manual pages and completions, in target/debian
	@scripts/make-deb

package-test: ## 'cargo install', and the Debian package in a clean Debian 12 (as root)
	cargo install --path . --locked --root $(TARGET)/installed
	$(TARGET)/installed/bin/lockscope --version
	@scripts/test-deb "$$(scripts/make-deb)"

bench: ## the figures of docs/benchmarks.md, measured on private servers (about a quarter of an hour)
	@scripts/ensure-server >/dev/null
	@scripts/ensure-cli >/dev/null || true
	cargo bench --locked --bench figures

soak: ## 110,000 hand-overs, the fleet, 10,000 sequences of every dialect, 400 openings, 180 faults of clusters and services, hostile servers (90 minutes)
	@scripts/ensure-server >/dev/null
	LOCKSCOPE_HANDOVERS=10000 $(TESTS) --locked --release --test race
	LOCKSCOPE_FLEET_SECONDS=120 $(TESTS) --locked --release --test fleet
	@scripts/ensure-libs
	LOCKSCOPE_SEQUENCES=10000 LOCKSCOPE_REAL_SEQUENCES=200 $(TESTS) --locked --release --test sequences $(TOLD)
	LOCKSCOPE_UPHEAVALS=60 $(TESTS) --locked --release --test topologies $(TOLD)
	LOCKSCOPE_KILL_ROUNDS=60 $(TESTS) --locked --release --test walk
	LOCKSCOPE_HOSTILE_ROUNDS=40 $(TESTS) --locked --release --test hostile
	LOCKSCOPE_OPENINGS=200 LOCKSCOPE_OPENINGS_SECONDS=600 $(TESTS) --locked --release --test openings $(TOLD)
