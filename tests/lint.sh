# Sourced by the scripts of this directory: Cargo then compiles the project's crates with Clippy, and lints are errors.
# `cargo clippy` uses the same variable, RUSTC_WORKSPACE_WRAPPER, but only checks; here, one build lints and produces
# executables. Dependencies share the artifacts of all other builds.
RUSTC_WORKSPACE_WRAPPER=$(rustup which clippy-driver 2>/dev/null || command -v clippy-driver) || {
	echo "lints: clippy-driver not found; run \"rustup component add clippy\"" >&2
	exit 1
}
export RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS=-Dwarnings
