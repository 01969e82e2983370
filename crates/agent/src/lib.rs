//! The loop: the turn machine, the session actor, the tool seam, approvals, prompts.
//!
//! Start reading at [`tool`].

pub mod tool;
