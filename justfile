# What CI runs, and what a developer runs before a commit. `just` lists the recipes.
# CI: `.ci/run` installs `just` and `cargo-deny`, then runs `just ci`.

set shell := ["bash", "-euo", "pipefail", "-c"]

# Lists the recipes.
_default:
    @{{ just_executable() }} --list --unsorted

# The tests and the lints: what a change must pass before it is committed.
test: format clippy cargo-test facade-test

# Formatting, here and in the packages of their own.
format:
    cargo fmt --check
    cargo fmt --check --manifest-path fuzz/Cargo.toml
    cargo fmt --check --manifest-path examples/payments-http/Cargo.toml
    cargo fmt --check --manifest-path benches/peers/Cargo.toml

# Clippy on all targets with all features; a warning fails.
clippy:
    cargo clippy --locked --all-features --all-targets -- -D warnings

# The README's test command, as it stands there.
cargo-test:
    cargo test

# Not part of `cargo-test`: that runs on what a program gets that does without. So the counters' tests run here once more. With
# `tokio`, since what is done for a task is to be in the task's span.
#
# The tests of what goes out through `metrics` and `tracing`.
facade-test:
    cargo test --locked --features metrics,tracing,tokio --test facade --test observability

# Without SQLite, since loom can't see into it. RUSTFLAGS are global, hence a cfg and a build folder of our own. The bound on
# preemptions, 3, stands in tests/loom.rs with its reason; LOOM_MAX_PREEMPTIONS overrides it.
#
# Explores every interleaving of the memory backend and of the commit queue, up to a bound on preemptions.
loom *filter:
    #!/usr/bin/env bash
    set -euo pipefail
    export RUSTFLAGS="--cfg idempotency_loom -D warnings"
    flags=(--locked --release --no-default-features --target-dir target/loom)
    cargo test "${flags[@]}" --lib commit_queue::models -- {{ filter }}
    cargo test "${flags[@]}" --test loom -- {{ filter }}

# Without SQLite, as for loom, with a cfg and a build folder of its own. Faults can be planted in this build, too, so that it shows
# that it finds a race. IDEMPOTENCY_SOAK=N draws N times as many.
#
# Draws interleavings of 4 to 8 threads over the whole memory backend, and of those who wait for a reply.
shuttle *filter:
    RUSTFLAGS="--cfg idempotency_shuttle --cfg idempotency_planted -D warnings" \
        cargo test --locked --release --no-default-features --target-dir target/shuttle --test shuttle -- --nocapture {{ filter }}

# One build for all of them, with a cfg and a build folder of its own, as for loom. The faults stand in src/planted, and which test
# each must fail in tests/planted/table.rs; with IDEMPOTENCY_PLANTED=NAME in the environment, any test of that build runs on one.
#
# Plants one fault at a time in the store, and shows the test that fails for it.
planted:
    RUSTFLAGS="--cfg idempotency_planted -D warnings" CARGO_TARGET_DIR="{{ justfile_directory() }}/target/planted" \
        cargo test --locked --test planted -- --nocapture

# Not part of `cargo-test`, which must not build a runtime.
#
# The store for tasks: its tests and its examples, on tokio itself.
async-test:
    cargo test --locked --features tokio --lib async_store
    cargo test --locked --features tokio --test tokio
    cargo test --locked --features tokio --doc async_store

# The documentation with all features; a warning fails, so every link leads somewhere.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features

# Security advisories are left out: they live in a database that has to be fetched from the network, and a new one would fail a
# change that has nothing to do with it. `cargo deny check advisories` looks at them.
#
# Checks what is in the dependency tree: bans, licences, sources.
deny:
    cargo deny --locked check bans licenses sources

# cargo-deny looks at the tree with all features, where tokio may be. An error of `cargo tree` says that it knows no such package.
#
# Checks that a runtime comes in by the feature `tokio` only: not by default, and not for the tests.
tree:
    #!/usr/bin/env bash
    set -euo pipefail
    of_tokio=(cargo tree --locked --edges all --target all --invert tokio)
    "${of_tokio[@]}" --features tokio
    if output=$("${of_tokio[@]}" 2>&1) || ! grep --quiet "did not match any packages" <<<"$output"; then
        echo "the default tree has tokio, or can't be looked at: $output"
        exit 1
    fi

# The packages stand in docs/default-tree.txt: whoever adds one changes that file, too. Taken as for one system, so that it is the
# same list wherever this runs; the versions are Cargo.lock's.
#
# Fails if the default build has come to need other packages than it did.
default-tree:
    #!/usr/bin/env bash
    set -euo pipefail
    export LC_ALL=C
    tree=$(cargo tree --locked --edges normal,build --target x86_64-unknown-linux-gnu --prefix none --format '{p}')
    if ! diff docs/default-tree.txt <(cut --delimiter ' ' --fields 1 <<<"$tree" | sort --unique); then
        echo "the default build needs other packages (>) than docs/default-tree.txt has (<)"
        exit 1
    fi

# The features are those that Cargo.toml has. `sqlite` without `bundled` is checked, not linked: it needs the system's SQLite only
# then.
#
# Lints the library without features, with each, with each two, and with all of them; a warning fails.
features:
    #!/usr/bin/env bash
    set -euo pipefail
    mapfile -t all < <(sed -n '/^\[features\]/,/^\[/s/^\([a-z0-9_-]*\) = .*/\1/p' Cargo.toml | grep --invert-match '^default$')
    echo "features: ${all[*]}"
    [[ " ${all[*]} " == *" sqlite "* ]] # else they were not found
    sets=("" "${all[@]}")
    for ((one = 0; one < ${#all[@]}; one++)); do
        for ((other = one + 1; other < ${#all[@]}; other++)); do
            sets+=("${all[one]},${all[other]}")
        done
    done
    sets+=("$(IFS=,; echo "${all[*]}")")
    for features in "${sets[@]}"; do
        cargo clippy --locked --quiet --lib --no-default-features --features "$features" -- -D warnings ||
            { echo "with these features: ${features:-none}"; exit 1; }
    done
    echo "${#sets[@]} sets of features"
    cargo clippy --locked --quiet --all-targets --no-default-features -- -D warnings

# Most systems' SQLite is older than the store can be trusted on; the bundled one is not. The test itself looks at the version that
# is linked, and expects one or the other. rusqlite calls a function that came with 3.44, so nothing links to what is older: there
# its address is 0, and a call of it would be seen, because the store refuses such a library before it opens anything.
#
# Builds on the system's SQLite, in a folder of its own, and tests that opening refuses it if it is too old.
system-sqlite:
    #!/usr/bin/env bash
    set -euo pipefail
    flags=(--locked --no-default-features --features sqlite,testing,serde --target-dir target/system-sqlite)
    flags+=(--target "$(rustc --print host-tuple)" --test sqlite)
    test=library::a_library_that_loses_commits_is_refused_before_anything_is_touched_and_another_is_not
    if ! pkg-config --exists sqlite3; then
        echo "NOT TESTED: there is no SQLite of the system's to link (pkg-config knows no sqlite3); checked by the compiler only"
        cargo check "${flags[@]}"
        exit
    fi
    echo "the system's SQLite: $(pkg-config --modversion sqlite3)"
    if ! pkg-config --atleast-version=3.44 sqlite3; then
        export RUSTFLAGS="-C link-arg=-Wl,--defsym=sqlite3_set_clientdata=0"
    fi
    output=$(cargo test "${flags[@]}" -- --exact "$test" --nocapture)
    echo "$output"
    grep --quiet "1 passed" <<<"$output"

# Lints the fuzz targets, so that they can't rot. `fuzz_corpus` of `cargo-test` runs them over what is in fuzz/corpus.
fuzz-build:
    cargo clippy --locked --manifest-path fuzz/Cargo.toml --target-dir target/fuzz --all-targets -- -D warnings

# Fuzzes one target for a while, or several.
fuzz target seconds="60":
    scripts/fuzz {{ seconds }} {{ target }}

# Fuzzes each target for a while, two at a time.
fuzz-all seconds="60":
    scripts/fuzz {{ seconds }} $(ls fuzz/corpus)

# IDEMPOTENCY_SOAK is the factor; the seeds are new in each run, and printed. With 10, some quarter of an hour; with 40, an hour.
#
# Runs what is drawn at random so many times longer, and fuzzes each target for so many minutes.
soak factor="10" minutes="5":
    #!/usr/bin/env bash
    set -euo pipefail
    export IDEMPOTENCY_SOAK={{ factor }}
    cargo test --locked --test model --test races -- --nocapture
    cargo test --locked --test faults -- --nocapture power_loss log_cuts bit_flips
    cargo test --locked --test processes -- --nocapture killed_at_once no_room clocks fresh_files short_leases
    cargo test --locked --test sqlite -- --nocapture forks_under_load
    cargo test --locked --test fuzz_corpus -- --nocapture
    {{ just_executable() }} shuttle
    {{ just_executable() }} fuzz-all $(({{ minutes }} * 60))
    scripts/kill-loop $((50 * {{ factor }}))

# Needs cargo-mutants. Not part of `ci`: hours. It changes one expression at a time of what decides, of the SQL layer and of the commit
# queue, in a copy of the sources; what no test objects to is listed in the end. A file may be named.
#
# Shows which small changes of the source no test finds.
mutants file="":
    #!/usr/bin/env bash
    set -euo pipefail
    files=({{ file }})
    [[ ${#files[@]} -gt 0 ]] || files=(src/transition.rs src/commit_queue.rs src/backend/sqlite.rs 'src/backend/sqlite/*.rs')
    cargo mutants "${files[@]/#/--file=}" --timeout 120 --output target/mutants -- --lib --test agreement --test behaviours --test cases \
        --test sqlite --test transactions --test faults

# Needs cargo-llvm-cov, and LLVM's llvm-cov and llvm-profdata: rustup's component `llvm-tools`, or others of at least LLVM 19, named by
# LLVM_COV and LLVM_PROFDATA. Branches are counted by the nightly toolchain only; without it, lines and regions are. The children that
# tests start and kill are counted as far as they end by themselves.
#
# Counts the lines and branches of `src` that the tests reach.
coverage:
    #!/usr/bin/env bash
    set -euo pipefail
    toolchain=() branch=()
    if rustup toolchain list | grep --quiet '^nightly'; then
        toolchain=(+nightly) branch=(--branch)
    else
        echo "NOT COUNTED: branches, for want of a nightly toolchain"
    fi
    export CARGO_TARGET_DIR=target/coverage
    cargo "${toolchain[@]}" llvm-cov clean
    for features in testing,serde,json metrics,tracing,tokio,testing,serde,json; do
        cargo "${toolchain[@]}" llvm-cov --no-report "${branch[@]}" --locked --features "$features" --lib --tests --examples
    done
    cargo "${toolchain[@]}" llvm-cov report "${branch[@]}" --summary-only --ignore-filename-regex '/(tests|examples|benches)/'
    cargo "${toolchain[@]}" llvm-cov report "${branch[@]}" --html --ignore-filename-regex '/(tests|examples|benches)/'

# Measures the operations; arguments go to criterion: a filter, `--save-baseline NAME`, …
bench *arguments:
    cargo bench --locked --bench operations -- {{ arguments }}

# Runs each benchmark once, in tiny sizes, to see that it works.
bench-test:
    cargo test --locked --bench operations
    cargo test --locked --bench ratios -- --quick
    cargo test --locked --bench scale -- --quick
    cargo test --locked --bench footprint -- --quick

# Nothing else should run meanwhile. The argument may be `--repeats N`. What came out lies in the target folder, in `measured`.
#
# Measures all that the README's figures are from, and reports it: some twenty minutes.
measure *arguments:
    cargo bench --locked --bench ratios -- {{ arguments }}
    cargo bench --locked --bench scale -- {{ arguments }}
    cargo bench --locked --bench footprint -- {{ arguments }}
    {{ just_executable() }} peers-memory {{ arguments }}
    {{ just_executable() }} peers-durable {{ arguments }}
    {{ just_executable() }} report

# A package of its own, with a build folder of its own. `idempotent` names a newer Rust than it needs.
peers := "--locked --ignore-rust-version --manifest-path benches/peers/Cargo.toml --target-dir target/peers"
# All results lie in one place, where the report finds them.
measured := env("CARGO_TARGET_DIR", justfile_directory() / "target") / "measured"

# Needs no server: one that is not installed is named, and not measured.
#
# Lints the comparison with other crates and servers, and runs it and its report in small, to see that they work.
peers:
    cargo clippy {{ peers }} --all-targets -- -D warnings
    cargo test {{ peers }} --bin report
    cargo test {{ peers }} --bench memory --bench durable -- --quick
    cargo run {{ peers }} --bin report -- target/peers/measured/quick target/peers/report

# Compares claim, completion and replay in memory with the crates that do the same.
peers-memory *arguments:
    IDEMPOTENCY_MEASURED="{{ measured }}" cargo bench {{ peers }} --bench memory -- {{ arguments }}

# Compares durable claims with PostgreSQL and Redis, which it starts and stops, where they are installed.
peers-durable *arguments:
    IDEMPOTENCY_MEASURED="{{ measured }}" cargo bench {{ peers }} --bench durable -- {{ arguments }}

# Writes docs/measured.md and its charts from what the benches left.
report:
    cargo run {{ peers }} --bin report -- "{{ measured }}" docs

# The example: a small payment service on SQLite; arguments go to it.
example *arguments:
    cargo run --release --example payments -- {{ arguments }}

# A package of its own, with a build folder of its own.
#
# Tests the payment service over HTTP, then sends it the README's two requests at once.
payments-http:
    cargo clippy --locked --manifest-path examples/payments-http/Cargo.toml --target-dir target/payments-http --all-targets -- -D warnings
    cargo test --locked --manifest-path examples/payments-http/Cargo.toml --target-dir target/payments-http
    examples/payments-http/scripts/two-curls

# With IDEMPOTENCY_TEST_SEED, the same events and moments are drawn again. `tests/processes` kills some two hundred more.
#
# Kills the consumer of webhooks at random moments, then compares its orders with the events.
kill-loop kills="25":
    scripts/kill-loop {{ kills }}

# The README's first command, on a fresh clone of what is committed, in an empty folder.
fresh-clone:
    #!/usr/bin/env bash
    set -euo pipefail
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    commit=$(git rev-parse HEAD)
    git clone --quiet --no-checkout . "$folder/idempotency"
    cd "$folder/idempotency"
    git checkout --quiet --detach "$commit"
    unset CARGO_TARGET_DIR
    cargo run --release --example payments

# Everything, in CI's order: what fails fast comes first.
ci:
    #!/usr/bin/env bash
    set -euo pipefail
    passed=0
    for step in format clippy cargo-test async-test facade-test loom shuttle planted doc deny tree default-tree features system-sqlite fuzz-build fuzz-all bench-test peers payments-http kill-loop fresh-clone; do
        echo "=== $step"
        start=$SECONDS
        {{ just_executable() }} "$step"
        echo "=== $step took $((SECONDS - start)) s"
        passed=$((passed + 1))
    done
    echo "steps: $passed passed, 0 failed"
