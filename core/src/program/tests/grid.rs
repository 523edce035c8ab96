//! Every option with every language and target.

use super::*;

/// The columns of the grid.
const CELLS: [Cell; 9] = {
    use CodeType::{Cxx, LtoIr, Nvvm, Ptx as PtxCode};
    use TargetType::{Cubin, LtoIr as LtoIrTarget, Ptx};
    [
        Cell::new(Cxx, Ptx),
        Cell::new(Cxx, Cubin),
        Cell::new(Cxx, LtoIrTarget),
        Cell::new(PtxCode, Cubin),
        Cell::new(PtxCode, Ptx),
        Cell::new(LtoIr, Cubin),
        Cell::new(LtoIr, Ptx),
        Cell::new(Nvvm, Ptx),
        Cell::new(Nvvm, LtoIrTarget),
    ]
};

/// p: passed, and in the key. i: ignored, and not in the key. o: refused because of what is outside of the key.
/// u: refused because it is not supported.
///
/// The columns are C++ to PTX, CUBIN, LTO-IR; PTX to CUBIN, PTX; LTO-IR likewise; NVVM IR to PTX, LTO-IR.
fn grid() -> Vec<(&'static str, Value, &'static str)> {
    let yes = || Value::from(true);
    let no = || Value::from(false);
    Vec::from([
        ("arch", "sm_80".into(), "ppp pp pp pp"),
        ("relocatable_device_code", yes(), "ppp ii ii uu"),
        ("relocatable_device_code", no(), "ppp ii ii uu"),
        ("extensible_whole_program", yes(), "ppp ii ii uu"),
        ("debug", yes(), "ppp pp pp pp"),
        ("lineinfo", yes(), "ppp pp pp uu"),
        ("device_code_optimize", yes(), "ppp ii ii pp"),
        ("device_code_optimize", no(), "iii ii ii pp"),
        ("ptxas_options", "-v".into(), "ppp pp pp uu"),
        ("ptxas_options", ["-v", "-O2"].into(), "ppp pp pp uu"),
        ("max_register_count", 32.into(), "ppp pp pp uu"),
        ("ftz", yes(), "ppp pp pp pp"),
        ("ftz", no(), "ppp pp pp pp"),
        ("prec_sqrt", yes(), "ppp pp pp pp"),
        ("prec_sqrt", no(), "ppp pp pp pp"),
        ("prec_div", yes(), "ppp pp pp pp"),
        ("prec_div", no(), "ppp pp pp pp"),
        ("fma", yes(), "ppp pp pp pp"),
        ("fma", no(), "ppp pp pp pp"),
        ("use_fast_math", yes(), "ppp ii ii uu"),
        ("extra_device_vectorization", yes(), "ppp ii ii uu"),
        ("link_time_optimization", yes(), "ppp pp ii uu"),
        ("gen_opt_lto", yes(), "ppp ii ii uu"),
        ("jump_table_density", 50.into(), "ppp pp pp pp"),
        ("device_stack_protector", yes(), "ppp pp pp uu"),
        ("device_stack_protector", no(), "ppp ii ii uu"),
        ("define_macro", "A=1".into(), "ppp ii ii uu"),
        ("define_macro", ["A", "B=2"].into(), "ppp ii ii uu"),
        ("undefine_macro", "A".into(), "ppp ii ii uu"),
        ("no_source_include", yes(), "iii ii ii uu"),
        ("std", "c++20".into(), "ppp ii ii uu"),
        ("builtin_move_forward", yes(), "ppp ii ii uu"),
        ("builtin_move_forward", no(), "ppp ii ii uu"),
        ("builtin_initializer_list", yes(), "ppp ii ii uu"),
        ("builtin_initializer_list", no(), "ppp ii ii uu"),
        ("disable_warnings", yes(), "ppp ii ii uu"),
        ("warning_as_error", "all-warnings".into(), "ppp ii ii uu"),
        ("fmax_errors", 3.into(), "ppp ii ii uu"),
        ("restrict", yes(), "ppp ii ii uu"),
        ("device_as_default_execution_space", yes(), "ppp ii ii uu"),
        ("device_int128", yes(), "ppp ii ii uu"),
        ("optimization_info", "inline".into(), "ppp ii ii uu"),
        ("no_display_error_number", yes(), "ppp ii ii uu"),
        ("diag_error", "1".into(), "ppp ii ii uu"),
        ("diag_suppress", ["1", "2"].into(), "ppp ii ii uu"),
        ("diag_warn", "1".into(), "ppp ii ii uu"),
        ("brief_diagnostics", yes(), "ppp ii ii uu"),
        ("brief_diagnostics", no(), "ppp ii ii uu"),
        ("split_compile", 4.into(), "ppp pp pp uu"),
        ("fdevice_syntax_only", yes(), "ppp ii ii uu"),
        ("minimal", yes(), "ppp ii ii uu"),
        ("no_cache", yes(), "ppp pp pp uu"),
        ("device_float128", yes(), "ppp ii ii uu"),
        ("frandom_seed", "seed".into(), "ppp ii ii uu"),
        ("ofast_compile", "mid".into(), "ppp ii ii uu"),
        ("use_libdevice", yes(), "uuu uu uu oo"),
        ("numba_debug", yes(), "ppp ii ii pp"),
    ])
}

/// Those for which no differs from not given, in one cell at least.
const SWITCHES: [&str; 10] = [
    "relocatable_device_code",
    "device_code_optimize",
    "device_stack_protector",
    "ftz",
    "prec_sqrt",
    "prec_div",
    "fma",
    "builtin_move_forward",
    "builtin_initializer_list",
    "brief_diagnostics",
];

/// The grid, or what of it Miri has the time for.
fn rows() -> impl Iterator<Item = (&'static str, Value, &'static str)> {
    grid().into_iter().step_by(if cfg!(miri) { 80 } else { 1 })
}

fn columns(row: &str) -> impl Iterator<Item = (Cell, char)> {
    CELLS.into_iter().zip(row.chars().filter(|outcome| !outcome.is_whitespace()))
}

fn outcome(cell: Cell, name: &str, program: &Case) -> char {
    let plain = cell.program(Options::new()).key().expect("nothing is asked for");
    match program.key() {
        Ok(key) => {
            let arguments = program.arguments();
            assert!(arguments.is_ok(), "{cell:?} {name}: the key is given, and the arguments are not");
            if key == plain { 'i' } else { 'p' }
        }
        Err(refusal) => {
            assert_eq!(refusal.option(), Some(name), "{cell:?}: {refusal}");
            assert!(refusal.to_string().starts_with(name), "{refusal}");
            assert_eq!(program.arguments(), Err(refusal.clone()), "{cell:?}");
            match [refusal.is_outside_content(), refusal.is_unsupported()] {
                [true, false] => 'o',
                [false, true] => 'u',
                _ => panic!("{cell:?} {name}: {refusal:?}"),
            }
        }
    }
}

#[test]
fn every_cell_has_the_outcome_of_the_grid() {
    for (name, value, row) in rows() {
        assert_eq!(columns(row).count(), CELLS.len(), "{name}");
        for (cell, expected) in columns(row) {
            let program = cell.program(Options::new().with(option(name), value.clone()));
            assert_eq!(outcome(cell, name, &program), expected, "{cell:?} {name}={value}");
        }
    }
}

#[test]
fn every_option_has_a_row_in_the_grid() {
    let grid = grid();
    for option in OptionName::ALL {
        let has_row = grid.iter().any(|(name, ..)| *name == option.as_str());
        assert!(has_row, "{option}");
    }
    // Those of the compilers, except those that a program has fields for, that write files, or that precompile headers.
    assert_eq!(OptionName::ALL.len(), 45);
}

#[test]
fn an_extra_digest_opens_what_is_outside_and_nothing_else() {
    for (name, value, row) in rows() {
        for (cell, expected) in columns(row) {
            let program = cell.program(Options::new().with(option(name), value.clone()));
            let program = program.with_contents(extra());
            // The digest itself is in the key.
            let expected = if matches!(expected, 'o' | 'i') { 'p' } else { expected };
            assert_eq!(outcome(cell, name, &program), expected, "{cell:?} {name}={value}");
        }
    }
}

#[test]
fn option_with_two_values_makes_two_keys_wherever_passed() {
    let grid: Vec<_> = rows().collect();
    for (at, (name, value, row)) in grid.iter().enumerate() {
        for (other_name, other, other_row) in &grid[at + 1..] {
            for ((cell, one), (_, two)) in columns(row).zip(columns(other_row)) {
                if (one, two) != ('p', 'p') {
                    continue;
                }
                let key = |name: &str, value: &Value| {
                    let options = Options::new().with(option(name), value.clone());
                    cell.program(options).key().expect("it is passed")
                };
                assert_ne!(
                    key(name, value),
                    key(other_name, other),
                    "{cell:?}: {name}={value} {other_name}={other}"
                );
            }
        }
    }
}

#[test]
fn a_flag_that_is_not_set_is_as_good_as_not_given() {
    for (name, value, _) in rows() {
        if value != Value::Flag(true) || SWITCHES.contains(&name) {
            continue;
        }
        for cell in CELLS {
            let program = cell.program(Options::new().with(option(name), false));
            assert_eq!(outcome(cell, name, &program), 'i', "{cell:?} {name}");
        }
    }
}

#[test]
fn modules_besides_the_source_are_for_nvvm_and_lto_ir_alone() {
    for (cell, expected) in columns("uuu uu pp pp") {
        let program = cell.program(Options::new()).with_extra_source("other", &b"BC"[..]);
        assert_eq!(outcome(cell, "extra_sources", &program), expected, "{cell:?}");
    }
}

#[test]
fn only_these_languages_are_compiled_to_these_targets() {
    for code in CodeType::ALL {
        for target in TargetType::ALL {
            let is_cell = CELLS.iter().any(|cell| (cell.code, cell.target) == (code, target));
            let cell = Cell::new(code, target);
            let key = cell.program(Options::new()).key();
            assert_eq!(key.is_ok(), is_cell, "{cell:?}");
            if let Err(refusal) = key {
                assert!(refusal.is_unsupported());
                assert_eq!(refusal.option(), Some("target_type"), "{cell:?}: {refusal}");
            }
        }
    }
}
