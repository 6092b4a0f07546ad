//! What came back: [`Answer`].

use serde_json::Value;

/// A response, as its bytes were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case, in the order of the response.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// All values of the header `name`.
    pub fn all(&self, name: &str) -> Vec<&[u8]> {
        self.headers.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_slice()).collect()
    }

    /// The value of the only header `name`; none if there is none.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        match *self.all(name) {
            [] => None,
            [value] => Some(str::from_utf8(value).expect("a header of text")),
            _ => panic!("more than one {name}: {self:?}"),
        }
    }

    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed").is_some_and(|value| value == "true")
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }

    /// The id of what was made.
    #[track_caller]
    pub fn id(&self) -> String {
        self.json()["id"].as_str().expect("an id").to_owned()
    }

    /// That it is a problem of this `status` and `kind`, whole, and that it shows nothing of `secrets`.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, kind: &str, secrets: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["type"], format!("https://payments.example/problems/{kind}"));
        assert_eq!(problem["status"], status);
        for member in ["title", "detail"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "no {member}: {problem}");
        }
        let whole = format!("{:?} {}", self.headers, String::from_utf8_lossy(&self.body));
        for secret in secrets {
            assert!(!whole.contains(secret), "{secret} is in {whole}");
        }
    }

    /// That it tells when to come back: in whole seconds, at least one, and not only after the lease.
    #[track_caller]
    pub fn assert_retry_after(&self) {
        let seconds: u64 =
            self.header("retry-after").expect("a Retry-After").parse().expect("a number of seconds");
        assert!((1..=5).contains(&seconds), "Retry-After: {seconds}");
    }

    /// That it is a replay of `first`: the same status and body.
    #[track_caller]
    pub fn assert_replays(&self, first: &Self) {
        assert!(self.is_replay(), "{self:?}");
        assert!(!first.is_replay(), "{first:?}");
        assert_eq!((self.status, &self.body), (first.status, &first.body));
    }
}
