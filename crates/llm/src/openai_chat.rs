//! The adapter kind `openai-chat`: every server that speaks the chat-completions protocol.
//!
//! Owns configuration, defaults and the list of models. The request's body is built in `request`,
//! the stream is read in `exchange` and understood in `decoder`, failures get their codes in
//! `failure`. Leaves retries to the loop: each call of [`Adapter::stream`] is one HTTP request.

mod decoder;
mod exchange;
mod failure;
mod request;

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use orrery_session::LlmFailure;
use orrery_session::payload::{AdapterDefaults, RequestConfig};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, Url};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::driven::drive;
use crate::seam::{Adapter, ChunkStream, LlmRequest, ModelInfo, PreparedCall};
use crate::secret::ApiKey;

/// The kind's name in the configuration.
pub const KIND: &str = "openai-chat";
/// How long a discovered list of models is good for.
const MODELS_FRESH: Duration = Duration::from_secs(60);
/// How long discovery may take.
const MODELS_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes of a list of models.
const MODELS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How a provider of this kind is reached. Start from [`OpenAiChatConfig::new`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenAiChatConfig {
    /// The provider's name, as configured and logged.
    pub provider: String,
    /// The provider's name for a person; `None` takes the provider's name.
    pub display_name: Option<String>,
    /// Where it is, with the version: `https://api.example.com/v1`.
    pub base_url: String,
    /// Its key.
    pub api_key: ApiKey,
    /// Its models; empty means that the server is asked.
    pub models: Vec<ModelInfo>,
    /// Whether `reasoning_content` is passed back with earlier answers. `None` decides by the
    /// address: only DeepSeek demands it.
    pub echo_reasoning: Option<bool>,
    /// Longest answer when none is asked for, in tokens; `None` leaves it to the server.
    pub default_max_tokens: Option<u64>,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the server may send nothing at all before it counts as dead.
    pub idle_timeout: Duration,
}

impl OpenAiChatConfig {
    /// A provider at an address, everything else at its default: no key, models discovered, 10
    /// seconds to connect, 120 seconds of silence.
    pub fn new(provider: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            display_name: None,
            base_url: base_url.into(),
            api_key: ApiKey::NotNeeded,
            models: Vec::new(),
            echo_reasoning: None,
            default_max_tokens: None,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
        }
    }
}

/// The adapter of one provider.
#[derive(Debug)]
pub struct OpenAiChat {
    config: OpenAiChatConfig,
    style: request::Style,
    base: String,
    client: Client,
    discovered: Mutex<Option<(Instant, Vec<ModelInfo>)>>,
}

impl OpenAiChat {
    /// Sets up the client; connects to nobody yet.
    ///
    /// # Errors
    ///
    /// `INVALID_ADAPTER` when the address is none, or TLS cannot be set up.
    pub fn new(config: OpenAiChatConfig) -> Result<Self, LlmFailure> {
        let invalid = |why: String| {
            let message = format!("provider `{}`: {why}", config.provider);
            LlmFailure::new("INVALID_ADAPTER", message)
        };
        let base = config.base_url.trim_end_matches('/').to_owned();
        let url = Url::parse(&base)
            .map_err(|error| invalid(format!("`base_url` is not an address: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(invalid(
                "`base_url` must start with http:// or https://".to_owned(),
            ));
        }
        install_tls();
        let mut client = Client::builder()
            .user_agent(concat!("orrery/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(config.connect_timeout)
            // A redirect would carry the conversation to somebody who was not configured.
            .redirect(reqwest::redirect::Policy::none());
        if is_loopback(&url) {
            client = client.no_proxy();
        }
        let client = client
            .build()
            .map_err(|error| invalid(format!("cannot set up HTTP: {}", error.without_url())))?;
        let host = url.host_str().unwrap_or_default();
        let style = request::Style {
            echo_reasoning: config
                .echo_reasoning
                .unwrap_or_else(|| base.to_ascii_lowercase().contains("deepseek")),
            completion_tokens: host == "api.openai.com",
        };
        Ok(Self {
            style,
            base,
            client,
            discovered: Mutex::new(None),
            config,
        })
    }

    fn headers(&self) -> Result<HeaderMap, LlmFailure> {
        let mut headers = HeaderMap::new();
        if let Some(key) = self.config.api_key.get(&self.config.provider)? {
            let mut value =
                HeaderValue::try_from(format!("Bearer {}", key.expose())).map_err(|_unusable| {
                    let message = format!(
                        "the key of the provider `{}` holds characters that no key has",
                        self.config.provider
                    );
                    LlmFailure::new("INVALID_CREDENTIAL", message)
                })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    async fn discover(&self) -> Result<Vec<ModelInfo>, LlmFailure> {
        let ask = async {
            let request = self
                .client
                .get(format!("{}/models", self.base))
                .headers(self.headers()?);
            let response = request.send().await.map_err(failure::from_transport)?;
            if !response.status().is_success() {
                return Err(failure::from_response(response, &self.config.api_key).await);
            }
            exchange::whole_body(response, MODELS_BYTES_MAX).await
        };
        let body = tokio::time::timeout(MODELS_TIMEOUT, ask)
            .await
            .map_err(|_elapsed| failure::silent(MODELS_TIMEOUT))??;
        model_list(&body).ok_or_else(|| {
            let message = "the list of models is not in a known form";
            LlmFailure::new("UNKNOWN", message)
        })
    }

    /// What is known about a model without asking anybody.
    fn known(&self, model: &str) -> Option<ModelInfo> {
        let find = |models: &[ModelInfo]| models.iter().find(|info| info.id == model).cloned();
        find(&self.config.models).or_else(|| {
            // Locked means that somebody is asking the server: a prompt does not wait for that.
            let discovered = self.discovered.try_lock().ok()?;
            let (_, models) = discovered.as_ref()?;
            find(models)
        })
    }
}

#[async_trait]
impl Adapter for OpenAiChat {
    fn provider(&self) -> &str {
        &self.config.provider
    }

    fn display_name(&self) -> String {
        let name = self.config.display_name.as_ref();
        name.unwrap_or(&self.config.provider).clone()
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, LlmFailure> {
        if !self.config.models.is_empty() {
            return Ok(self.config.models.clone());
        }
        // Held while asking: whoever else wants the list waits for the same answer.
        let mut discovered = self.discovered.lock().await;
        if let Some((at, models)) = discovered.as_ref()
            && at.elapsed() < MODELS_FRESH
        {
            return Ok(models.clone());
        }
        let models = self.discover().await?;
        *discovered = Some((Instant::now(), models.clone()));
        Ok(models)
    }

    async fn prepare(&self, mut config: RequestConfig) -> Result<PreparedCall, LlmFailure> {
        self.headers()?;
        if config.model.is_empty() {
            return Err(LlmFailure::new("INVALID_MODEL", "no model is selected"));
        }
        let configured = &self.config.models;
        if !configured.is_empty() && !configured.iter().any(|info| info.id == config.model) {
            let names: Vec<&str> = configured.iter().map(|info| info.id.as_str()).collect();
            let message = format!(
                "the provider `{}` has no model `{}`; configured are: {}",
                self.config.provider,
                config.model,
                names.join(", ")
            );
            return Err(LlmFailure::new("INVALID_MODEL", message));
        }
        let info = self.known(&config.model);
        let mut defaults = AdapterDefaults::default();
        if let Some(info) = &info {
            match &config.reasoning_effort {
                Some(effort) => {
                    let efforts = &info.reasoning_efforts;
                    if !efforts.is_empty() && !efforts.contains(effort) {
                        let message = format!(
                            "the model `{}` knows the reasoning efforts {}, not `{effort}`",
                            config.model,
                            efforts.join(", ")
                        );
                        return Err(LlmFailure::new("UNSUPPORTED_REASONING_EFFORT", message));
                    }
                }
                None => {
                    config.reasoning_effort.clone_from(&info.default_effort);
                    defaults.reasoning_effort = info.default_effort.is_some();
                }
            }
        }
        if config.max_tokens.is_none() {
            config.max_tokens = self.config.default_max_tokens;
            defaults.max_tokens = config.max_tokens.is_some();
        }
        Ok(PreparedCall {
            config,
            defaults,
            context_window: info.and_then(|info| info.context_window),
        })
    }

    fn stream(&self, request: LlmRequest, cancel: CancellationToken) -> ChunkStream {
        let call = self.headers().and_then(|headers| {
            Ok(exchange::Call {
                client: self.client.clone(),
                url: format!("{}/chat/completions", self.base),
                headers,
                body: request::body(&request, self.style)?,
                key: self.config.api_key.clone(),
                idle_timeout: self.config.idle_timeout,
            })
        });
        drive(move |emitter| async move { exchange::run(call, &emitter, cancel).await })
    }
}

/// Installs the TLS provider of this process, once; another part of it may have been faster.
fn install_tls() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let provider = rustls::crypto::ring::default_provider();
        if provider.install_default().is_err() {
            tracing::debug!("a TLS provider was installed already");
        }
    });
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// Reads the list in the forms that servers use: under `data`, under `models`, or bare.
fn model_list(body: &[u8]) -> Option<Vec<ModelInfo>> {
    #[derive(Deserialize)]
    struct Entry {
        #[serde(alias = "name")]
        id: String,
        #[serde(default, alias = "context_window", alias = "max_model_len")]
        context_length: Option<u64>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum List {
        Bare(Vec<Entry>),
        Wrapped {
            #[serde(alias = "models")]
            data: Vec<Entry>,
        },
    }
    let entries = match serde_json::from_slice(body).ok()? {
        List::Bare(entries) | List::Wrapped { data: entries } => entries,
    };
    let models = entries.into_iter().map(|entry| ModelInfo {
        context_window: entry.context_length,
        ..ModelInfo::named(entry.id)
    });
    Some(models.collect())
}
