//! The handwritten digits of the example `digits`, as the runs of many chores describe their data: of every fifty rows the last ten are for the test.

/// The table `[data]` of a description, at its end: what follows is more of it. The rows lie in this folder.
macro_rules! digits_data {
    ($folder:literal) => {
        concat!(
            "[data]\nkind = \"csv\"\npath = \"",
            $folder,
            "/digits.csv.gz\"\nlabel = 64\nclasses = 10\ndivisor = 16.0\ntest = { divide = 10, modulo = 5, equals = 4 }\n"
        )
    };
}
