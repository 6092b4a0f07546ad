//! Who a request is from: [`Principal`].

use std::fmt;
use std::sync::Arc;

/// Who a request is from, as a verified credential says.
///
/// The authentication in front of the layer puts it into the request's extensions. Make it from what the
/// credential proves (the account that a token was issued to, the subject of a checked signature), and from
/// nothing else: whoever can choose it reads other accounts' answers. There is no header for it.
///
/// 1 to 128 visible ASCII characters other than `/`, which is what the layer joins it to the endpoint's name
/// with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

/// Why a name is no [`Principal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrincipalError;

impl fmt::Display for PrincipalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a principal has 1 to {} visible ASCII characters, none of them a slash",
            Principal::MAX_LEN
        )
    }
}

impl std::error::Error for PrincipalError {}

impl Principal {
    /// The longest one, in bytes.
    pub const MAX_LEN: usize = 128;

    /// The principal that `name` names.
    ///
    /// # Errors
    /// If it is empty or too long, or has a slash or something that is no visible ASCII.
    pub fn new(name: &str) -> Result<Self, PrincipalError> {
        let has_only_fine_bytes = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
        if has_only_fine_bytes && (1..=Self::MAX_LEN).contains(&name.len()) {
            Ok(Self(Arc::from(name)))
        } else {
            Err(PrincipalError)
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
