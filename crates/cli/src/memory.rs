//! How the process asks the system for memory.

/// Lets all threads allocate from two arenas.
///
/// By default glibc gives every thread one of its own, up to eight for each core, and each keeps
/// what its thread once needed: lists of 10,000 sessions, answered by one thread after another, left
/// three times the memory of one list.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn share() {
    #[expect(unsafe_code, reason = "the allocator is told by a C function")]
    // SAFETY: `mallopt` takes two numbers, and no other thread runs yet.
    let taken = unsafe { libc::mallopt(libc::M_ARENA_MAX, 2) };
    debug_assert_eq!(taken, 1, "a known option is taken");
}

/// Other allocators have no such number.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn share() {}
