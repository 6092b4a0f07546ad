//! Command sequences over the memory backend.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    idempotency_fuzz::commands::run(data);
});
