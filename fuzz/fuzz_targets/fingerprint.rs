#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(idempotency_fuzz::fingerprint::run(data)));
