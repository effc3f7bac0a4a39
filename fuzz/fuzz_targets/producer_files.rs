#![no_main]

#[path = "../bodies/producer_files.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
