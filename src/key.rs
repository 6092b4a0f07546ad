//! Who an operation belongs to and what it is called: [`Scope`], [`IdempotencyKey`], and both as a
//! [`RecordId`].

mod header_value;

use self::header_value::string_item;
use crate::hex::Hex;
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// The longest scope and the longest key, in bytes of UTF-8.
pub const MAX_KEY_LEN: usize = 255;

/// Why a scope or an idempotency key was refused. It was not stored anywhere, and the store was not asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not one byte.
    #[error("a scope or key must not be empty")]
    Empty,
    /// More bytes of UTF-8 (not characters) than allowed.
    #[error("a scope or key of {len} bytes is longer than {max} bytes")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The most it may have.
        max: usize,
    },
    /// A control character, NUL included.
    #[error("a scope or key must not contain control characters (one is at byte {at})")]
    ControlCharacter {
        /// Where the first one starts, in bytes.
        at: usize,
    },
    /// Nothing but white space.
    #[error("a scope or key must not be only white space")]
    OnlyWhiteSpace,
    /// A header value that is neither an RFC 9651 string nor a bare key.
    #[error("malformed Idempotency-Key header: {problem}")]
    MalformedHeader {
        /// What is wrong with it, without its value.
        problem: &'static str,
    },
}

fn validated(value: &str, max: usize) -> Result<Arc<str>, KeyError> {
    let max = max.min(MAX_KEY_LEN);
    if value.is_empty() {
        return Err(KeyError::Empty);
    }
    if value.len() > max {
        return Err(KeyError::TooLong { len: value.len(), max });
    }
    if let Some((at, _)) = value.char_indices().find(|(_, c)| c.is_control()) {
        return Err(KeyError::ControlCharacter { at });
    }
    if value.chars().all(char::is_whitespace) {
        return Err(KeyError::OnlyWhiteSpace);
    }
    Ok(Arc::from(value))
}

/// Writes a digest of `value` short enough for a log line, long enough to tell most keys of one log apart;
/// never the value.
fn write_digest(f: &mut fmt::Formatter<'_>, name: &str, value: &str) -> fmt::Result {
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(value.as_bytes()));
    write!(f, "{name}(#{})", Hex(&[a, b, c, d]))
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// 1 to 255 bytes (not characters) of UTF-8, no control characters, not only white space. Compared
        /// byte by byte: nothing is trimmed, folded or normalised. Cheap to clone. `Debug` and `Display` show
        /// a short digest, never the value.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `value` and takes it as it is.
            ///
            /// # Errors
            /// [`KeyError`] if it is empty, longer than [`MAX_KEY_LEN`] bytes, only white space, or has a
            /// control character.
            pub fn new(value: impl AsRef<str>) -> Result<Self, KeyError> {
                Self::with_max_len(value, MAX_KEY_LEN)
            }

            /// As `new`, for callers that publish a shorter limit: at most `max` bytes. A `max` over
            /// [`MAX_KEY_LEN`] counts as [`MAX_KEY_LEN`].
            ///
            /// # Errors
            /// As `new`, with `max` for the length.
            pub fn with_max_len(value: impl AsRef<str>, max: usize) -> Result<Self, KeyError> {
                validated(value.as_ref(), max).map(Self)
            }

            /// The value itself. It may be sensitive: `Display` is what belongs into a log.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_digest(f, stringify!($name), &self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }
    };
}

name! {
    /// Who a key belongs to: a tenant, an account, an endpoint, or several of them, joined with a
    /// separator that none of them can contain.
    ///
    /// Take it from the authenticated principal, never from the caller's input: the scope is what keeps one
    /// tenant from reading another's reply.
    Scope
}

name! {
    /// The caller's name for one operation, the same in every retry.
    ///
    /// Made before the first attempt: random (a UUID v4), or something stable that the user acts on (a cart
    /// id, an event id). Never a hash of the request, since two equal orders are two operations; so there is
    /// no conversion from [`Fingerprint`](crate::Fingerprint). Nothing personal belongs in it.
    IdempotencyKey
}

impl IdempotencyKey {
    /// Reads the value of an `Idempotency-Key` header.
    ///
    /// Either an RFC 9651 string (`"…"`, in which `\"` and `\\` are the only escapes; parameters after it are
    /// ignored) or the bare value many clients send: visible ASCII without `"`, `,`, `;` or inner white
    /// space. Spaces and tabs around it are dropped. The quoted and the bare form of one value are the same
    /// key.
    ///
    /// ```
    /// use idempotency::IdempotencyKey;
    ///
    /// let quoted = IdempotencyKey::from_header(r#" "8e03978e-40d5" "#)?;
    /// assert_eq!(quoted, IdempotencyKey::from_header("8e03978e-40d5")?);
    /// assert!(IdempotencyKey::from_header("two keys").is_err());
    /// # Ok::<(), idempotency::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`KeyError::MalformedHeader`] if it is neither, [`KeyError::Empty`] if there is nothing, else as
    /// [`new`](Self::new).
    pub fn from_header(value: &str) -> Result<Self, KeyError> {
        Self::from_header_with_max_len(value, MAX_KEY_LEN)
    }

    /// As [`from_header`](Self::from_header), with at most `max` bytes in the key (quotes, escapes and
    /// parameters don't count).
    ///
    /// # Errors
    /// As [`from_header`](Self::from_header), with `max` for the length.
    pub fn from_header_with_max_len(value: &str, max: usize) -> Result<Self, KeyError> {
        let value = value.trim_matches([' ', '\t']);
        match value.strip_prefix('"') {
            Some(quoted) => {
                let key = string_item(quoted).map_err(|problem| KeyError::MalformedHeader { problem })?;
                Self::with_max_len(key, max)
            }
            None => {
                let bare = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | ',' | ';');
                if !value.chars().all(bare) {
                    return Err(KeyError::MalformedHeader {
                        problem: "a character that a bare key can't have",
                    });
                }
                Self::with_max_len(value, max)
            }
        }
    }
}

/// What a record stands under: one key within one scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// Who the key belongs to.
    pub scope: Scope,
    /// The name of the operation.
    pub key: IdempotencyKey,
}

impl RecordId {
    /// The record of `key` within `scope`.
    #[must_use]
    pub const fn new(scope: Scope, key: IdempotencyKey) -> Self {
        Self { scope, key }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.scope, self.key)
    }
}
