//! A stand-in for a program that is a subagent, where the tests of this crate find it.

fn main() -> std::process::ExitCode {
    orrery_testkit::stand_in::run(std::env::args().skip(1))
}
