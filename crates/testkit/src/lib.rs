//! What several crates' tests need: a scripted model server, a writer of log files, a disk that
//! breaks.
//!
//! Owns test doubles. The model server speaks a real protocol on real sockets, the log writer knows
//! the format and nothing of the product's codec, so that a test checks what goes over the wire and
//! what lies on disk; the product's types are known only to the disks, which stand behind its port, and
//! to what feeds it: the fuzz entries and the process that is killed.
//! Nothing here is linked into the product.

pub mod dice;
pub mod faulty_disk;
pub mod folders;
pub mod frozen_disk;
pub mod fuzz_entries;
pub mod gated_disk;
pub mod log_fixtures;
pub mod log_layout;
pub mod log_writer;
pub mod model_server;
mod shadow;
pub mod stand_in;
pub mod zstd_frames;

pub use dice::Dice;
pub use faulty_disk::{Fault, FaultyDisk, Loss, Op, Plan};
pub use gated_disk::GatedDisk;
pub use model_server::{Gate, ModelServer, Received, Reply};

/// The text of the chunk with this seq in the logs of `log-appender`: some short, some long.
pub fn text_of(seq: usize) -> String {
    let mut dice = Dice::new(seq as u64);
    (0..=dice.below(6))
        .map(|_| format!("{:x} ", dice.roll()))
        .collect()
}
