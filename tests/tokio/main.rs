//! The store for tasks of a tokio runtime. The runtime is tokio's smallest; its blocking pool has real threads.

use idempotency::{AsyncClaim, AsyncStore, CompleteError, IdempotencyStore, Ran, Reply};
use std::error::Error as StdError;
use tokio::runtime::Builder;

#[test]
fn smoke() {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let store = AsyncStore::new(IdempotencyStore::in_memory(), runtime.handle().clone());
    let scope = idempotency::Scope::new("s").unwrap();
    let key = idempotency::IdempotencyKey::new("k").unwrap();
    let fingerprint = idempotency::Fingerprint::builder().finish();
    let text = String::from("job");
    let ran = runtime.block_on(runtime.spawn(async move {
        store
            .run(&scope, &key, &fingerprint, async |claim: &mut AsyncClaim| {
                claim.renew().await?;
                claim.save_checkpoint(&text).await?;
                Ok::<_, idempotency::Error>(Reply::Reference(text.clone()))
            })
            .await
    }));
    assert!(matches!(ran, Ok(Ok(Ran::Executed(_)))), "{ran:?}");
    fn is_error<T: StdError + Send + Sync + 'static>() {}
    is_error::<CompleteError<AsyncClaim>>();
}
