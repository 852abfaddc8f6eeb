//! What a table is called while something may be missing.

use super::check;

#[test]
fn a_table_is_whole_again_only_when_nothing_more_is_asked_for() {
    check(
        "end          => complete
         live 0a      => 0a
         live 2a      => unproven ask>=0
         replay 0a 1a => 1a
         live 4a      =>
         end          => 2a ask>=2
         replay 2a 3a => 3a
         end          => 4a complete",
    );
    check(
        "replay 7a    => forgotten<7 7a
         end          =>
         interrupted  =>
         resubscribed => ask>=7
         replay 7a    =>
         end          =>",
    );
}

#[test]
fn an_interruption_without_restart_changes_nothing() {
    check(
        "end          => complete
         live 0a 1a   => 0a 1a
         interrupted  => unproven
         resubscribed => ask>=1
         replay 1a 2a => 2a
         live 2a 3a   =>
         end          => 3a complete",
    );
    check(
        "end          => complete
         live 0a 1a   => 0a 1a
         resubscribed => unproven ask>=1
         fail         => unanswered
         live 2a      => 2a",
    );
}
