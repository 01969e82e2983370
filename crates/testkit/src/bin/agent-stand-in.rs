//! A stand-in for a program that is a subagent; see `orrery_testkit::stand_in`.

fn main() -> std::process::ExitCode {
    orrery_testkit::stand_in::run(std::env::args().skip(1))
}
