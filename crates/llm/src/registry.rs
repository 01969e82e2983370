//! Which provider names lead to which adapter, and what all of them have on offer.
//!
//! Owns look-up and the combined catalogue. Leaves to the host which providers are configured, and
//! to the adapters what their models are.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use orrery_session::LlmFailure;
use orrery_session::payload::RequestConfig;

use crate::seam::{Adapter, ModelInfo, PreparedCall};

/// The adapters of this process, by provider name.
#[derive(Debug, Clone, Default)]
pub struct Adapters {
    by_provider: BTreeMap<String, Arc<dyn Adapter>>,
}

/// The models of one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelGroup {
    /// The provider's name, as configured and logged.
    pub provider: String,
    /// The provider's name for a person.
    pub display_name: String,
    /// Its models, in its own order.
    pub models: Vec<ModelInfo>,
}

/// A provider that could not say what it has on offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueFailure {
    /// The provider's name, as configured and logged.
    pub provider: String,
    /// The provider's name for a person.
    pub display_name: String,
    /// Why it could not say.
    pub failure: LlmFailure,
}

/// What all providers have on offer: one failing provider hides no other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The providers that answered, by name.
    pub groups: Vec<ModelGroup>,
    /// The providers that did not, by name.
    pub failures: Vec<CatalogueFailure>,
}

impl Adapters {
    /// No adapters yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an adapter under its own provider name.
    ///
    /// # Errors
    ///
    /// `DUPLICATE_ADAPTER` when the name is taken (`session.md` 3.9); the first one stays.
    pub fn register(&mut self, adapter: Arc<dyn Adapter>) -> Result<(), LlmFailure> {
        let provider = adapter.provider().to_owned();
        if self.by_provider.contains_key(&provider) {
            let message = format!("there is already an adapter for the provider `{provider}`");
            return Err(LlmFailure::new("DUPLICATE_ADAPTER", message));
        }
        self.by_provider.insert(provider, adapter);
        Ok(())
    }

    /// The adapter of a provider.
    ///
    /// # Errors
    ///
    /// `NO_ADAPTER` when nobody speaks for it; the message names those who are there.
    pub fn get(&self, provider: &str) -> Result<Arc<dyn Adapter>, LlmFailure> {
        self.by_provider.get(provider).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.providers().collect();
            let message = format!(
                "no provider is called `{provider}`; configured are: {}",
                if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                }
            );
            LlmFailure::new("NO_ADAPTER", message)
        })
    }

    /// Finds the adapter that `config` names and has it check and complete the config.
    ///
    /// # Errors
    ///
    /// `NO_ADAPTER`, or whatever the adapter refuses.
    pub async fn prepare(
        &self,
        config: RequestConfig,
    ) -> Result<(Arc<dyn Adapter>, PreparedCall), LlmFailure> {
        let adapter = self.get(&config.provider)?;
        let prepared = adapter.prepare(config).await?;
        Ok((adapter, prepared))
    }

    /// The names of all providers, in order.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.by_provider.keys().map(String::as_str)
    }

    /// Whether there is no adapter at all.
    pub fn is_empty(&self) -> bool {
        self.by_provider.is_empty()
    }

    /// Asks all providers at once what they have on offer. Takes as long as the slowest, which the
    /// adapters bound by their own timeouts.
    pub async fn catalogue(&self) -> Catalogue {
        let asked = self.by_provider.iter().map(|(provider, adapter)| async {
            (
                provider.clone(),
                adapter.display_name(),
                adapter.models().await,
            )
        });
        let mut catalogue = Catalogue::default();
        for (provider, display_name, answer) in join_all(asked).await {
            match answer {
                Ok(models) => catalogue.groups.push(ModelGroup {
                    provider,
                    display_name,
                    models,
                }),
                Err(failure) => catalogue.failures.push(CatalogueFailure {
                    provider,
                    display_name,
                    failure,
                }),
            }
        }
        catalogue
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::seam::{ChunkStream, LlmRequest};

    #[derive(Debug)]
    struct Stub {
        name: &'static str,
        works: bool,
    }

    #[async_trait]
    impl Adapter for Stub {
        fn provider(&self) -> &str {
            self.name
        }
        fn display_name(&self) -> String {
            self.name.to_uppercase()
        }
        async fn models(&self) -> Result<Vec<ModelInfo>, LlmFailure> {
            if self.works {
                Ok(Vec::new())
            } else {
                Err(LlmFailure::new("TRANSPORT", "nobody there"))
            }
        }
        async fn prepare(&self, config: RequestConfig) -> Result<PreparedCall, LlmFailure> {
            Ok(PreparedCall {
                config,
                defaults: Default::default(),
                context_window: None,
            })
        }
        fn stream(&self, _request: LlmRequest, _cancel: CancellationToken) -> ChunkStream {
            Box::pin(futures_util::stream::empty())
        }
    }

    fn stub(name: &'static str, works: bool) -> Arc<dyn Adapter> {
        Arc::new(Stub { name, works })
    }

    #[tokio::test]
    async fn a_provider_that_fails_hides_no_other() {
        let mut adapters = Adapters::new();
        adapters.register(stub("b", false)).unwrap();
        adapters.register(stub("a", true)).unwrap();
        let catalogue = adapters.catalogue().await;
        assert_eq!(catalogue.groups[0].display_name, "A");
        assert_eq!(catalogue.failures[0].failure.code, "TRANSPORT");
    }

    #[test]
    fn a_missing_and_a_doubled_adapter_have_their_codes() {
        let mut adapters = Adapters::new();
        assert_eq!(adapters.get("a").unwrap_err().code, "NO_ADAPTER");
        adapters.register(stub("a", true)).unwrap();
        let doubled = adapters.register(stub("a", true)).unwrap_err();
        assert_eq!(doubled.code, "DUPLICATE_ADAPTER");
        assert!(adapters.get("b").unwrap_err().message.ends_with(": a"));
    }
}
