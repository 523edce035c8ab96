//! Plays a scenario on the store of a harness.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    sync::Arc,
    thread,
    time::Duration,
};

use warmstart::{
    Artifact, Cache, Clock, KeyFields, Limits, Metadata, MissReason, Provenance, Statistics, Store,
    SystemClock,
    cache::{Origin, Request},
};

use crate::{
    conformance::Harness,
    proof::{self, SetClock},
    scenario::{
        damage,
        script::{Build, Call, Get, How, Put, Reopen, Scenario, Step},
        words::KeyOf,
    },
};

/// The name of the store that a scenario starts with.
const FIRST: &str = "first";

/// A scenario that is being played, and its state.
pub(super) struct Player<'a> {
    harness: &'a dyn Harness,
    scenario: &'a Scenario,
    clock: Option<SetClock>,
    handles: BTreeMap<&'a str, Cache>,
    /// The name of the handle that the steps use.
    on: &'a str,
    /// The round of the innermost repetition.
    pub(super) round: u64,
    /// The damage of the current round of `each_damage`.
    turn: Option<How>,
    /// The last artifact that was put, by key and version.
    pub(super) versions: HashMap<(Vec<u8>, u64), Artifact>,
}

/// The bytes of a key, and the fields that it was made of.
struct Named<'a> {
    bytes: Vec<u8>,
    fields: Option<KeyFields<'a>>,
    /// The key as text, if the scenario gives a text.
    text: Option<String>,
}

impl<'a> Named<'a> {
    fn request(&self) -> Request<'_> {
        match (&self.fields, &self.text) {
            (Some(fields), _) => fields.into(),
            (None, Some(text)) => text.into(),
            (None, None) => self.bytes[..].into(),
        }
    }

    fn of(key: &'a KeyOf, round: u64) -> Self {
        let text = match key {
            KeyOf::Text(text) => text.text().into_owned(),
            KeyOf::Numbered { numbered } => format!("{numbered}{round}"),
            KeyOf::Bytes { bytes } => return Self { bytes: bytes.clone(), fields: None, text: None },
            KeyOf::Bare { key_of } => {
                let bytes = key_of.fields(round).key().as_bytes().to_vec();
                return Self { bytes, fields: None, text: None };
            }
            KeyOf::Fields(fields) => {
                let fields = fields.fields(round);
                return Self { bytes: fields.key().as_bytes().to_vec(), fields: Some(fields), text: None };
            }
        };
        Self { bytes: text.clone().into_bytes(), fields: None, text: Some(text) }
    }
}

pub(super) fn reason(name: &str) -> MissReason {
    MissReason::from_name(name).unwrap_or_else(|| panic!("{name} is no reason"))
}

impl<'a> Player<'a> {
    /// Opens the store of the scenario.
    #[must_use]
    pub(super) fn new(harness: &'a dyn Harness, scenario: &'a Scenario) -> Self {
        let mut player = Self {
            harness,
            scenario,
            clock: scenario.clock.map(SetClock::at),
            handles: BTreeMap::new(),
            on: FIRST,
            round: 0,
            turn: None,
            versions: HashMap::new(),
        };
        player.open(FIRST);
        player
    }

    /// Does the steps, and checks their results.
    ///
    /// # Panics
    /// If a result is not the expected one.
    pub(super) fn play(&mut self, steps: &'a [Step]) {
        for step in steps {
            self.step(step);
        }
    }

    fn open(&mut self, handle: &'a str) {
        let clock: Arc<dyn Clock> = match &self.clock {
            Some(clock) => Arc::new(clock.clone()),
            None => Arc::new(SystemClock),
        };
        let store = self.harness.open(self.scenario.limits.into(), clock.clone());
        self.handles.insert(handle, Cache::new(store).with_clock(clock));
    }

    pub(super) fn cache(&self) -> &Cache {
        self.handles.get(self.on).expect("a handle is used between its opening and its end")
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.cache().store()
    }

    pub(super) fn bytes(&self, key: &'a KeyOf) -> Vec<u8> {
        Named::of(key, self.round).bytes
    }

    fn step(&mut self, step: &'a Step) {
        match step {
            Step::Put(put) => self.put(put),
            Step::Get(get) => self.get(get),
            Step::Has { key, is } => assert_eq!(self.has(key), *is, "has {key:?}"),
            Step::Held { of, are } => {
                let held: Vec<_> = of.iter().filter(|key| self.has(key)).map(|key| self.bytes(key)).collect();
                assert_eq!(held, are.iter().map(|key| self.bytes(key)).collect::<Vec<_>>());
            }
            Step::Remove { key, was } => {
                let key = Named::of(key, self.round);
                assert_eq!(self.cache().remove(key.request()), Ok(*was), "remove {:?}", key.bytes);
            }
            Step::Len(len) => assert_eq!(self.store().inspect().unwrap().totals().unwrap().entries, *len),
            Step::Clear => self.cache().clear().unwrap(),
            Step::Close => assert_eq!(self.cache().close(), Ok(())),
            Step::Reopen(reopen) => self.reopen(*reopen),
            Step::Open { handle } => self.open(handle),
            Step::Drop { handle } => drop(self.handles.remove(&**handle).expect("it was opened")),
            Step::On { handle, steps } => {
                let before = std::mem::replace(&mut self.on, handle);
                self.play(steps);
                self.on = before;
            }
            Step::Refuses { reason: name, key, calls } => {
                for call in calls {
                    self.refuses(reason(name), &self.bytes(key), *call);
                }
            }
            Step::Clock(ms) => self.clock.as_ref().expect("a scenario that sets its clock has one").set(*ms),
            Step::Repeat { times, steps } => {
                let before = self.round;
                for round in 0..*times {
                    self.round = round;
                    self.play(steps);
                }
                self.round = before;
            }
            Step::Damage { key, how } => self.damage(key, how),
            Step::EachDamage { key, kind, steps } => {
                for how in damage::each(*kind, self.stored(key).len()) {
                    self.turn = Some(how);
                    self.play(steps);
                }
                self.turn = None;
            }
            Step::Stored { key, hex } => assert_eq!(self.stored(key), damage::from_hex(hex)),
            Step::Verify(verify) => self.verify(verify),
            Step::Entries(told) => self.entries(told),
            Step::Nearest { to, is } => self.nearest(to, is.as_ref()),
            Step::Prune { to, removes } => self.prune(*to, *removes),
            Step::Build(build) => self.build(build),
            Step::Find { key, version } => {
                let key = Named::of(key, self.round);
                let built = || -> Result<Artifact, Infallible> { panic!("{:?} is stored", key.bytes) };
                let found = self.cache().get_or_build(key.request(), built).unwrap();
                assert!(found.is_hit());
                self.check(&key, *version, found.artifact());
            }
            Step::Statistics(counts) => counts.iter().for_each(|(name, count)| self.statistics(name, count)),
        }
    }

    /// Returns the artifact of a put of this version; each version has another payload.
    fn artifact(&self, key: &Named<'_>, version: u64, size: u64) -> Artifact {
        let size = usize::try_from(size).expect("a payload that fits into memory");
        let payload = if size == 0 { Vec::new() } else { proof::payload(&key.bytes, version, size) };
        let created_unix_ms = self.clock.as_ref().map_or(1_700_000_000_123, Clock::unix_ms);
        Artifact::new(payload).with_provenance(Provenance { created_unix_ms, build_nanos: u64::MAX })
    }

    /// Checks that an artifact is, to the byte, the one that was put, with its metadata.
    fn check(&self, key: &Named<'_>, version: u64, found: &Artifact) {
        let put = self.versions.get(&(key.bytes.clone(), version)).expect("what is found was put before");
        assert!(found.payload() == put.payload(), "not version {version} of {:?}", key.bytes);
        assert_eq!(found.metadata(), put.metadata(), "version {version} of {:?}", key.bytes);
        // The duration of the build is unknown here.
        let (found, put) = (found.provenance(), put.provenance());
        assert_eq!(found.created_unix_ms, put.created_unix_ms);
        assert!(put.build_nanos == 0 || found.build_nanos == put.build_nanos);
    }

    fn remember(&mut self, key: &Named<'_>, version: u64, artifact: &Artifact) {
        let mut metadata = artifact.metadata().unwrap();
        if let Some(fields) = &key.fields {
            metadata = metadata.with_recipe(fields.recipe());
        }
        self.versions.insert((key.bytes.clone(), version), artifact.clone().with_metadata(&metadata));
    }

    fn put(&mut self, put: &'a Put) {
        let key = Named::of(&put.key, self.round);
        let version = put.version.number(self.round);
        let mut artifact = self.artifact(&key, version, put.size.bytes(self.round));
        if let Some(label) = &put.label {
            artifact =
                artifact.with_metadata(&Metadata::new().with_attribute("label", label.text().as_bytes()));
        }
        let stored = self.cache().put(key.request(), &artifact);
        match &put.refused {
            Some(why) => assert_eq!(stored, Err(reason(why)), "put {:?}", key.bytes),
            None => {
                let evicted = stored.unwrap_or_else(|why| panic!("put {:?}: {why}", key.bytes));
                assert!(put.evicts.is_none_or(|n| n == evicted), "put {:?} evicted {evicted}", key.bytes);
                self.remember(&key, version, &artifact);
            }
        }
        // Whatever was stored or refused, no cap is exceeded.
        if let (Ok(totals), Limits { max_entries, max_bytes, .. }) =
            (self.store().inspect().unwrap().totals(), self.scenario.limits.into())
        {
            assert!(max_entries.is_none_or(|max| totals.entries <= max), "{totals:?}");
            assert!(max_bytes.is_none_or(|max| totals.bytes <= max), "{totals:?}");
        }
    }

    fn get(&self, get: &'a Get) {
        let key = Named::of(&get.key, self.round);
        let found = self.cache().get(key.request());
        let turn = self.turn.as_ref().map(|turn| format!(" after {turn:?}")).unwrap_or_default();
        match (get.version, &get.misses) {
            (Some(version), None) => {
                let found = found.unwrap_or_else(|why| panic!("{:?} missed{turn}: {why:?}", key.bytes));
                self.check(&key, version.number(self.round), &found);
            }
            (None, Some(why)) if why == "damage" => {
                let is_damage = found.as_ref().is_err_and(|reason| reason.is_damage());
                assert!(is_damage, "{:?}{turn}: {found:?}", key.bytes);
            }
            (None, Some(why)) => assert_eq!(found.err(), Some(reason(why)), "{:?}{turn}", key.bytes),
            _ => panic!("a look-up finds a version or misses"),
        }
    }

    fn has(&self, key: &'a KeyOf) -> bool {
        self.cache().contains(Named::of(key, self.round).request()).unwrap()
    }

    fn reopen(&mut self, reopen: Reopen) {
        if self.harness.is_persistent() {
            let cache = self.handles.remove(self.on).expect("it was opened");
            if matches!(reopen, Reopen::AfterClose) {
                cache.close().unwrap();
            }
            drop(cache);
            self.open(self.on);
        }
    }

    fn refuses(&self, reason: MissReason, key: &[u8], call: Call) {
        let store = self.store();
        let inspect = store.inspect().unwrap();
        let fields = KeyFields::new("refused", 1);
        let result = match call {
            Call::Get => store.get(key).map(drop),
            Call::Put => store.put(key, &Artifact::new(vec![7; 100])).map(drop),
            Call::Remove => store.remove(key).map(drop),
            Call::Has => store.contains(key).map(drop),
            Call::Len => inspect.totals().map(drop),
            Call::Clear => store.clear(),
            Call::Entries => inspect.entries(&mut |_| panic!("it told of an entry")),
            Call::Nearest => inspect.nearest(&fields.recipe()).map(drop),
            Call::Prune => inspect.prune(Limits::bytes(0)).map(drop),
            Call::Reports => store
                .inspect()
                .unwrap()
                .stats()
                .map(drop)
                .or_else(|_| inspect.report(&Statistics::default(), None)),
        };
        assert_eq!(result, Err(reason), "{call:?}");
    }

    pub(super) fn stored(&self, key: &'a KeyOf) -> Vec<u8> {
        let mut stored = Vec::new();
        self.harness.damage(&self.bytes(key), &mut |bytes| stored.clone_from(bytes));
        stored
    }

    fn damage(&self, key: &'a KeyOf, how: &'a How) {
        let others = if let How::CopyOf(other) = how { self.stored(other) } else { Vec::new() };
        let how = match (how, &self.turn) {
            (How::Each, Some(turn)) => turn,
            _ => how,
        };
        self.harness.damage(&self.bytes(key), &mut |bytes| damage::alter(bytes, how, &others));
    }

    fn build(&mut self, build: &'a Build) {
        let key = Named::of(&build.key, self.round);
        let artifact = self.artifact(&key, build.version, build.size.bytes(self.round));
        let (mut builds, before) = (0, self.cache().statistics());
        let fetched = self.cache().get_or_build(key.request(), || {
            builds += 1;
            thread::sleep(Duration::from_millis(build.takes_ms));
            if build.fails { Err("it fails, as it is told to") } else { Ok(artifact.clone()) }
        });
        assert_eq!(builds, 1, "{:?}", key.bytes);
        let missed = self.cache().statistics().since(&before).misses;
        assert_eq!((missed.of(reason(&build.misses)), missed.total()), (1, 1), "{missed:?}");
        assert_eq!(fetched.is_err(), build.fails);
        let Ok(fetched) = fetched else { return };
        assert!(fetched.artifact().payload() == artifact.payload());
        assert!(matches!(fetched.origin(), Origin::Built { .. }));
        assert_eq!(fetched.miss(), Some(reason(&build.misses)));
        assert_eq!(fetched.refusal(), build.refused.as_deref().map(reason));
        let created_unix_ms = fetched.artifact().provenance().created_unix_ms;
        let provenance = Provenance { created_unix_ms, build_nanos: 0 };
        self.remember(&key, build.version, &artifact.with_provenance(provenance));
    }
}
