//! See `orrery_testkit::fuzz_entries::record`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| orrery_testkit::fuzz_entries::record(bytes));
