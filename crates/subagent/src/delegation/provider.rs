//! How a subagent comes to be: the providers (`subagent.md` 4.5).

use std::sync::Arc;

use crate::delegation::DelegationError;
use crate::process::ProcessAgent;

/// What a child of a provider knows when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// Nothing: a fresh conversation.
    Fresh,
    /// All that its parent said and heard up to the end of its last closed turn.
    Inherited,
}

/// One way to come to a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its name, as descriptors record it.
    pub name: String,
    /// What its children begin with.
    pub context: Context,
    /// The program that its children are; `None` where the Host's own loop works. Such a child does
    /// one thing, has no tools of ours and takes no set-up.
    pub process: Option<Arc<ProcessAgent>>,
}

/// The providers by name, in the order they were registered. Copies share them.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    all: Arc<[Provider]>,
}

impl Providers {
    /// Takes the providers of a Host.
    ///
    /// # Errors
    /// `DUPLICATE_PROVIDER` when two have one name.
    pub fn new(all: Vec<Provider>) -> Result<Self, DelegationError> {
        for (at, provider) in all.iter().enumerate() {
            if all
                .iter()
                .take(at)
                .any(|before| before.name == provider.name)
            {
                let name = provider.name.clone();
                return Err(DelegationError::DuplicateProvider { name });
            }
        }
        Ok(Self { all: all.into() })
    }

    /// The two that work inside of the Host: `spawn` and `fork`.
    pub fn in_process() -> Self {
        let provider = |name: &str, context| Provider {
            name: name.to_owned(),
            context,
            process: None,
        };
        let all = vec![
            provider("spawn", Context::Fresh),
            provider("fork", Context::Inherited),
        ];
        Self { all: all.into() }
    }

    /// These, and programs beside them.
    ///
    /// # Errors
    /// `DUPLICATE_PROVIDER` when one has the name of another.
    pub fn with_processes(
        &self,
        agents: impl IntoIterator<Item = ProcessAgent>,
    ) -> Result<Self, DelegationError> {
        let processes = agents.into_iter().map(|agent| Provider {
            name: agent.name.clone(),
            context: Context::Fresh,
            process: Some(Arc::new(agent)),
        });
        Self::new(self.all.iter().cloned().chain(processes).collect())
    }

    /// All of them, in order.
    pub fn list(&self) -> &[Provider] {
        &self.all
    }

    /// The provider of that name.
    ///
    /// # Errors
    /// `NO_PROVIDER`, with the names that there are.
    pub fn get(&self, name: &str) -> Result<&Provider, DelegationError> {
        let found = self.all.iter().find(|provider| provider.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.all.iter().map(|p| p.name.as_str()).collect();
            DelegationError::NoProvider {
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
    }
}
