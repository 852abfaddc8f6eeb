use super::*;

#[test]
fn the_command_line_is_well_formed() {
    command().debug_assert();
}

#[test]
fn help_fits_a_screen_per_command() {
    let mut command = command();
    for sub in command.get_subcommands_mut() {
        let help = sub.render_help().to_string();
        let lines = help.lines().count();
        assert!(lines <= 60, "{} -h has {lines} lines", sub.get_name());
        let orders = ["--control-port", "--control-key-file"];
        assert!(sub.get_name() != "serve" || orders.iter().all(|flag| help.contains(flag)), "{help}");
    }
}
