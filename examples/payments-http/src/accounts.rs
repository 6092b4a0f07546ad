//! Who may use the service: [`Accounts`], and the authentication in front of everything else.

use crate::idempotent::{Principal, unauthorized};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use std::str::FromStr;
use std::sync::Arc;
use subtle::ConstantTimeEq;

type TokenDigest = [u8; 32];

/// The accounts, and the SHA-256 of each one's bearer token: who reads this table can't use the service.
/// That is enough for tokens that are long and random; passwords need a slow hash.
#[derive(Clone, Debug, Default)]
pub struct Accounts(Arc<Vec<(TokenDigest, Principal)>>);

impl Accounts {
    /// With one more account.
    #[must_use]
    pub fn with(mut self, account: Principal, token: &str) -> Self {
        Arc::make_mut(&mut self.0).push((digest(token), account));
        self
    }

    /// Whose token it is. It is compared with every account's, bit by bit to the end, so the time that takes
    /// does not say how close a guess was.
    fn owner_of(&self, token: &str) -> Option<&Principal> {
        let presented = digest(token);
        self.0.iter().fold(
            None,
            |found, (issued, account)| {
                if bool::from(issued.ct_eq(&presented)) { Some(account) } else { found }
            },
        )
    }
}

fn digest(token: &str) -> TokenDigest {
    Sha256::digest(token).into()
}

/// A table of accounts as a file has it: a name and a token's SHA-256 in hexadecimal on each line. Empty
/// lines, and lines that start with `#`, are skipped.
impl FromStr for Accounts {
    type Err = String;

    fn from_str(table: &str) -> Result<Self, String> {
        let mut accounts = Vec::new();
        for (number, line) in (1..).zip(table.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let account = line
                .split_once(' ')
                .and_then(|(name, hex)| Some((digest_from_hex(hex.trim())?, Principal::new(name).ok()?)));
            accounts.push(account.ok_or(format!("line {number} is no account and SHA-256"))?);
        }
        Ok(Self(Arc::new(accounts)))
    }
}

fn digest_from_hex(hex: &str) -> Option<TokenDigest> {
    let mut digest = TokenDigest::default();
    if hex.len() != digest.len() * 2 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(digest)
}

/// Lets through who has a valid token, as the [`Principal`] whose token it is.
pub async fn authenticate(State(accounts): State<Accounts>, mut request: Request, next: Next) -> Response {
    let Some(principal) = bearer_token(request.headers()).and_then(|token| accounts.owner_of(token)) else {
        return unauthorized().into_response();
    };
    request.extensions_mut().insert(principal.clone());
    next.run(request).await
}

/// The token of the one `Authorization` header there is.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut credentials = headers.get_all(header::AUTHORIZATION).iter();
    let (credential, None) = (credentials.next()?, credentials.next()) else { return None };
    let (scheme, token) = credential.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
