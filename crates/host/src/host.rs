//! The composition root: a configuration becomes a running Host.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use orrery_agent::RetryPolicy;
use orrery_catalog::Catalog;
use orrery_llm::{Adapters, ApiKey, ModelInfo, Offline, OpenAiChat, OpenAiChatConfig};
use orrery_query::search::SearchIndex;
use orrery_session::payload::{ApprovalPolicy, ModelSelection};
use orrery_session::{Clock, IdSource, LlmFailure, RandomIds, SystemClock};
use orrery_storage::disk::RealDisk;
use orrery_storage::{StorageError, Store, StoreOptions};
use orrery_subagent::delegation::{DelegationError, Limits, Providers};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Approval, Config, ModelRef, Provider};
use crate::controller::{Controller, ControllerParts, ControllerSettings, DelegationSettings};
use crate::gateway::auth::{Auth, NoRandomness, random_token};
use crate::gateway::trust::TrustedHosts;
use crate::gateway::{self, Gateway};
use crate::home::{Home, HomeError};
use crate::state_file::{StateFile, StateFileError};

/// Why a Host does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Its folders cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Its state file cannot be used.
    #[error(transparent)]
    State(#[from] StateFileError),
    /// Its logs cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A provider cannot be set up.
    #[error("provider {name:?}: {failure}")]
    Provider {
        /// Its name in the configuration.
        name: String,
        /// What is wrong.
        failure: LlmFailure,
    },
    /// Two subagent providers have one name: a fault of the build, names are checked before.
    #[error(transparent)]
    Delegation(#[from] DelegationError),
    /// Two projections claim one key: a fault of the build.
    #[error(transparent)]
    Projection(#[from] orrery_projection::RegisterError),
    /// No secrets can be made.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server failed.
    #[error("the server failed: {0}")]
    Serve(#[source] std::io::Error),
}

/// What a Host is started with.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Where everything lives.
    pub home: Home,
    /// How it behaves.
    pub config: Config,
    /// The folder of sessions that name none.
    pub default_cwd: PathBuf,
    /// The model of new sessions as long as this Host runs, over whatever the configuration says
    /// and a person chose before. Never saved.
    pub model: Option<ModelRef>,
}

/// A running Host, not yet listening.
#[derive(Debug)]
pub struct Host {
    options: HostOptions,
    controller: Controller,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
}

impl Host {
    /// Opens store, state and providers. Reads no log yet.
    ///
    /// # Errors
    /// Whatever keeps the Host from working at all; each says which file or key to look at.
    pub fn start(options: HostOptions) -> Result<Self, HostError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
        let (home, config) = (&options.home, &options.config);
        home.create()?;
        let store = Store::start(
            Arc::new(RealDisk),
            StoreOptions {
                compression: config.session.compression.into(),
                durability: config.session.durability.into(),
                catalogue_file: Some(home.catalogue()),
                ..StoreOptions::new(config.sessions_root(home))
            },
        )?;
        let catalog = catalog(home);
        let state = StateFile::open(home.host_file(), ids.uuid())?;
        let controller = Controller::new(ControllerParts {
            store,
            state,
            checkpoints: catalog.clone().ok().map(|catalog| Arc::new(catalog) as _),
            search: (config.search.enabled)
                .then(|| catalog.map(|catalog| Arc::new(catalog) as Arc<dyn SearchIndex>)),
            adapters: adapters(config)?,
            tools: orrery_tools::standard_tools(),
            clock: Arc::clone(&clock),
            ids: Arc::clone(&ids),
            delegation: DelegationSettings {
                providers: Providers::in_process().with_processes(config.programs().to_vec())?,
                limits: Limits {
                    max_depth: config.subagents.max_depth,
                    max_active: config.subagents.max_active,
                },
                continuable_forks: config.subagents.continuable_forks,
            },
            settings: ControllerSettings {
                default_cwd: options.default_cwd.clone(),
                sandbox: config.permissions.preset,
                approvals: match config.permissions.approval {
                    Approval::Ask => ApprovalPolicy::Ask,
                    Approval::Never => ApprovalPolicy::Never,
                },
                default_model: selection(&config.default_model()),
                model: options.model.as_ref().map(selection),
                idle_detach: config.session.idle_detach(),
                cold_read_concurrency: config.session.cold_read_concurrency,
                retry: RetryPolicy::default(),
                checkpoint_every_events: config.session.checkpoint_every_events,
                checkpoint_interval: config.session.checkpoint_interval(),
            },
        })?;
        Ok(Self {
            options,
            controller,
            clock,
            ids,
        })
    }

    /// All operations, in process.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Listens; port 0 takes any. Requests are accepted from now on, and answered once served.
    ///
    /// # Errors
    /// When the address is taken or the credentials cannot be set up.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listening, HostError> {
        let source = |source| HostError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(source)?;
        let address = listener.local_addr().map_err(source)?;
        self.controller.keep_searchable();
        let home = &self.options.home;
        let secret = cookie_secret(home)?;
        let auth = Auth::new(&home.token()?, secret.into_bytes(), Arc::clone(&self.clock));
        let user_home = std::env::var("HOME").unwrap_or_default();
        let gateway = Arc::new(Gateway {
            controller: self.controller.clone(),
            auth,
            trusted: TrustedHosts(self.options.config.server.trusted_hosts.clone()),
            address,
            user_home,
            generation: self.ids.uuid(),
            started_at: self.clock.now(),
            connections: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            closing: CancellationToken::new(),
            sockets: TaskTracker::new(),
        });
        Ok(Listening { listener, gateway })
    }

    /// Stops all turns and saves everything; gives what could not be saved.
    pub async fn shutdown(self) -> Vec<String> {
        self.controller.shutdown().await
    }
}

/// A Host that listens.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    gateway: Arc<Gateway>,
}

impl Listening {
    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.gateway.address
    }

    /// The URL without any secret.
    pub fn url(&self) -> String {
        self.gateway.url()
    }

    /// A link that signs a browser in once.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn launch_url(&self) -> Result<String, HostError> {
        Ok(self.gateway.launch_url()?)
    }

    /// Serves until `closing` fires, then lets requests finish.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self, closing: CancellationToken) -> Result<(), HostError> {
        let Self { listener, gateway } = self;
        let link = gateway.closing.clone();
        let watcher = tokio::spawn(async move {
            closing.cancelled().await;
            link.cancel();
        });
        let served = gateway::serve(gateway, listener).await;
        watcher.abort();
        served.map_err(HostError::Serve)
    }
}

/// Checkpoints and the search index. They are derived: where they cannot be kept on disk the Host
/// works without, and says so.
fn catalog(home: &Home) -> Result<Catalog, String> {
    Catalog::open(&home.index()).map_err(|error| {
        tracing::warn!(%error, "there is no search, and lists are slower");
        error.to_string()
    })
}

fn selection(model: &ModelRef) -> ModelSelection {
    ModelSelection {
        provider: model.provider().to_owned(),
        model: model.model().to_owned(),
        reasoning_effort: None,
    }
}

fn adapters(config: &Config) -> Result<Adapters, HostError> {
    let mut adapters = Adapters::new();
    let offline = Arc::new(Offline::default());
    let failed = |name: &str| {
        let name = name.to_owned();
        move |failure| HostError::Provider { name, failure }
    };
    adapters
        .register(offline)
        .map_err(failed(crate::config::OFFLINE_PROVIDER))?;
    for (name, provider) in &config.providers {
        let adapter = openai_chat(name, provider).map_err(failed(name))?;
        adapters.register(Arc::new(adapter)).map_err(failed(name))?;
    }
    Ok(adapters)
}

fn openai_chat(name: &str, provider: &Provider) -> Result<OpenAiChat, LlmFailure> {
    let mut config = OpenAiChatConfig::new(name, &provider.base_url);
    config.api_key = match &provider.api_key_env {
        Some(variable) => ApiKey::from_variable(variable, std::env::var(variable).ok()),
        None => ApiKey::NotNeeded,
    };
    config.models = provider.models.iter().map(ModelInfo::named).collect();
    config.echo_reasoning = provider.echo_reasoning;
    config.idle_timeout = provider.idle_timeout();
    OpenAiChat::new(config)
}

/// The secret that cookies are signed with; removing the file signs every browser out.
fn cookie_secret(home: &Home) -> Result<String, HostError> {
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Secrets {
        cookie_secret: String,
        #[serde(flatten)]
        others: serde_json::Map<String, serde_json::Value>,
    }
    let path = home.secrets_file();
    match std::fs::read(&path) {
        Ok(bytes) => match serde_json::from_slice::<Secrets>(&bytes) {
            Ok(secrets) => return Ok(secrets.cookie_secret),
            Err(error) => {
                let why = error.to_string();
                return Err(StateFileError::Malformed { path, why }.into());
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(source) => return Err(StateFileError::Io { path, source }.into()),
    }
    let secrets = Secrets {
        cookie_secret: random_token()?,
        others: serde_json::Map::new(),
    };
    let bytes = serde_json::to_vec(&secrets).unwrap_or_default();
    crate::home::replace_file(&path, &bytes)?;
    Ok(secrets.cookie_secret)
}
