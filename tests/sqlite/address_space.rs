//! A process that gets no memory for another thread.

/// `struct rlimit`: what holds now, and the most it can be set to.
#[repr(C)]
struct Limit {
    now: u64,
    most: u64,
}

unsafe extern "C" {
    #[link_name = "getrlimit64"]
    fn getrlimit(resource: u32, limit: *mut Limit) -> i32;
    #[link_name = "setrlimit64"]
    fn setrlimit(resource: u32, limit: *const Limit) -> i32;
}

/// `RLIMIT_AS`: how much address space this process may have.
const ADDRESS_SPACE: u32 = 9;

/// Does `work` while this process gets no more address space than a thread's stack would need.
pub fn without_room_for_a_stack<T>(work: impl FnOnce() -> T) -> T {
    let mut before = Limit { now: 0, most: 0 };
    // SAFETY: the place is there for the call, and has the layout that the call wants.
    assert_eq!(unsafe { getrlimit(ADDRESS_SPACE, &raw mut before) }, 0);
    let tight = Limit { now: 1, most: before.most };
    // SAFETY: as above; what is mapped stays mapped.
    assert_eq!(unsafe { setrlimit(ADDRESS_SPACE, &raw const tight) }, 0);
    let answer = work();
    // SAFETY: as above.
    assert_eq!(unsafe { setrlimit(ADDRESS_SPACE, &raw const before) }, 0);
    answer
}
