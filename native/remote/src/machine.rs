//! What all processes of a machine did with a remote.

use std::{fs::File, io, path::Path};

use crate::{
    files::is_file_or_absent,
    health,
    statistics::{self, FleetStatistics},
    uploads,
};

impl FleetStatistics {
    /// Reads the counts of a machine from the [directory](crate::FleetOptions::with_directory) of its fleets: those of all processes
    /// that closed theirs, what waits for its upload, and whether the remote is left alone.
    ///
    /// # Errors
    /// The directory is missing, is none of a fleet, or cannot be read. A machine that counted nothing yet is no error.
    pub fn of_machine(directory: &Path) -> io::Result<Self> {
        let uploads = directory.join(uploads::FOLDER);
        uploads.read_dir()?;
        let [statistics, breaker] = [statistics::FILE, health::FILE].map(|name| directory.join(name));
        if let Some(path) = [&statistics, &breaker].into_iter().find(|path| !is_file_or_absent(path)) {
            return Err(io::Error::other(format!("{} is no file; remove it", path.display())));
        }
        let mut counts = match File::open(statistics) {
            Ok(file) => statistics::read(&file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => return Err(error),
        };
        counts.uploads_waiting = uploads::listed(&uploads);
        counts.is_breaker_open = health::is_open(&breaker);
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn counts_of_processes_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(statistics::FILE);
        assert!(FleetStatistics::of_machine(folder.path()).is_err(), "a directory of something else");
        fs::create_dir(folder.path().join(uploads::FOLDER)).unwrap();
        assert_eq!(FleetStatistics::of_machine(folder.path()).unwrap(), FleetStatistics::default());
        let one = FleetStatistics { local_hits: 7, lease_wait_nanos: u64::MAX, ..Default::default() };
        let earlier = FleetStatistics { local_hits: 5, ..Default::default() };
        assert!(
            statistics::add(one, FleetStatistics::default(), &file) && statistics::add(one, earlier, &file)
        );
        let sum = FleetStatistics { local_hits: 9, ..one };
        assert_eq!(FleetStatistics::of_machine(folder.path()).unwrap(), sum);
        assert!(FleetStatistics::of_machine(&file).is_err());

        fs::write(&file, b"local_hits x\nremote_hits 3\n\xff 1\nmisses").unwrap();
        let left = FleetStatistics { remote_hits: 3, ..Default::default() };
        assert_eq!(FleetStatistics::of_machine(folder.path()).unwrap(), left);
        assert!(statistics::add(one, one, &file));
        assert_eq!(FleetStatistics::of_machine(folder.path()).unwrap(), left, "the damage is overwritten");
    }

    #[test]
    fn locked_counts_do_not_stop_a_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(statistics::FILE);
        let file = File::create(&path).unwrap();
        file.lock().unwrap();
        let one = FleetStatistics { local_hits: 7, ..Default::default() };
        assert!(!statistics::add(one, FleetStatistics::default(), &path));
        drop(file);
        assert!(statistics::add(one, FleetStatistics::default(), &path));
    }
}
