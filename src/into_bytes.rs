//! What can be given where bytes are kept: [`IntoBytes`].

use bytes::Bytes;

/// What can be given where bytes are kept: owned bytes are taken as they are, borrowed ones are copied.
///
/// [`Bytes`] are shared. A small part of a large buffer keeps the whole buffer in memory, uncounted: give
/// such a part as a slice.
pub trait IntoBytes {
    /// The bytes.
    fn into_bytes(self) -> Bytes;
}

macro_rules! taken_as_they_are {
    ($($owned:ty),*) => {$(
        impl IntoBytes for $owned {
            fn into_bytes(self) -> Bytes {
                Bytes::from(self)
            }
        }
    )*};
}

macro_rules! copied {
    ($([$($generics:tt)*] $borrowed:ty),*) => {$(
        impl $($generics)* IntoBytes for $borrowed {
            fn into_bytes(self) -> Bytes {
                Bytes::copy_from_slice(self.as_ref())
            }
        }
    )*};
}

taken_as_they_are!(Bytes, Vec<u8>, Box<[u8]>, String);
copied!([] &[u8], [] &str, [] &Vec<u8>, [] &String, [] &Bytes, [<const N: usize>] [u8; N], [<const N: usize>] &[u8; N]);
