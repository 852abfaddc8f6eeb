//! The contract of vLLM's gRPC services (0.32), as cases that any engine can be held against.
//!
//! `TITO_CONFORMANCE_GRPC` (`host:port`), `TITO_CONFORMANCE_HTTP` and `TITO_CONFORMANCE_KIND` (`light` or `dense`)
//! name an engine that is running; without them every case starts a mock of its own. What is expected is what the
//! real engine was seen to do: where it disagrees with its documentation, docs/conformance.md says so.

#![expect(clippy::unwrap_used, reason = "a case fails where its engine does not answer")]

mod ask;
mod cases;
mod needs;
mod raw;
mod reply;
mod target;

/// Every case of the suite with what it needs, by area: one test each.
macro_rules! suite {
    ($($area:ident { $($case:ident $([$($need:ident)+])?,)+ })+) => {
        $(mod $area {
            $(#[tokio::test]
            async fn $case() {
                let name = concat!(stringify!($area), "::", stringify!($case));
                let needs = &[$($(crate::needs::Need::$need),+)?];
                crate::target::run(name, needs, async |target| crate::cases::$area::$case(target).await).await;
            })+
        })+

        /// Area, case and needs of every test above.
        const CASES: &[(&str, &str, &[needs::Need])] = &[
            $($((stringify!($area), stringify!($case), &[$($(needs::Need::$need),+)?]),)+)+
        ];
    };
}

suite! {
    discovery {
        the_server_describes_itself,
        the_model_has_a_name_and_aliases,
        every_served_name_is_accepted,
        without_kv_events_no_source_is_listed [KvEventsOff],
        every_rank_names_its_kv_events [KvEvents],
    }
    health {
        the_whole_and_both_services_are_serving,
        an_unknown_service_is_not_found,
        a_watch_begins_with_the_present_status,
        http_health_is_an_empty_200 [Http],
        http_lists_every_served_name [Http],
    }
    greedy {
        a_unary_reply_is_one_complete_message,
        a_stream_begins_with_the_prompt_alone_and_ends_with_the_finish,
        the_same_request_gives_the_same_tokens,
        a_stream_adds_up_to_the_unary_reply,
        prompt_and_delivered_tokens_continue_exactly [Model],
        nothing_but_a_prompt_and_a_budget_is_greedy_text,
        text_can_be_left_out,
        the_prompt_is_echoed_when_asked,
        a_text_prompt_equals_its_token_ids,
        text_after_half_a_character_begins_with_the_prompt,
        truncation_keeps_the_last_tokens,
    }
    logprobs {
        without_candidates_each_position_has_an_empty_list,
        the_top_n_come_in_order_with_their_position_as_rank,
        chosen_ids_come_as_asked_and_ranked_by_position,
        a_selector_alone_asks_for_nothing,
        the_cap_counts_and_chosen_ids_do_not,
        a_greedy_token_is_its_own_first_candidate [Model],
        a_sampled_token_has_its_genuine_rank [Model],
        prompt_positions_begin_with_a_filler,
        prompt_logprobs_come_with_the_first_message,
        a_prompt_of_one_token_has_only_the_filler [Model],
        prompt_candidates_cannot_be_chosen_by_id,
        scoring_the_output_repeats_its_logprobs [Model],
        scoring_a_prompt_does_not_read_the_cache [Model],
    }
    stopping {
        the_budget_is_exact,
        the_budget_is_clamped_to_the_context,
        without_a_budget_the_context_is_filled,
        a_stop_token_is_counted_but_has_no_text [Model],
        a_kept_stop_token_has_text [Model],
        the_primary_end_is_named [Model],
        the_secondary_end_is_a_stop_token [Model],
        an_ignored_end_is_a_token_like_others [Model],
        an_end_waits_for_the_minimum [Model],
        a_kept_special_end_has_text [Model],
        a_stop_string_cuts_the_text_but_not_the_tokens,
        a_kept_stop_string_ends_the_text,
        a_stop_string_works_without_text,
        text_lags_by_what_could_become_a_stop_string,
        many_stop_strings_are_accepted,
        a_thinking_budget_is_accepted,
    }
    sampling {
        only_allowed_tokens_are_drawn [Model],
        a_bias_forces_a_token [Model],
        a_banned_token_is_not_drawn [Model],
        a_banned_sequence_is_not_completed [Model],
        a_seed_repeats_and_another_differs [Model],
        without_a_seed_equal_requests_differ [Model],
        narrow_limits_are_greedy [Model],
        any_seed_and_any_top_k_are_accepted,
        penalties_are_accepted_up_to_their_bounds,
    }
    scheduling {
        requests_that_start_in_one_step_share_their_prompt [Model SeveralAtATime],
        a_request_starts_in_the_step_in_which_all_of_its_prompt_fits [Model FewBlocks],
        requests_start_in_order_of_arrival_whatever_their_priority [FewBlocks Fcfs],
        lower_priorities_start_first_and_equal_ones_in_order_of_arrival [FewBlocks Priority],
        the_last_to_start_is_preempted [Slow Model FewBlocks Fcfs],
        the_least_urgent_is_preempted_although_it_was_first [Slow Model FewBlocks Priority],
        a_waiting_pause_does_not_wait_for_what_was_preempted [Slow Model FewBlocks Fcfs],
        a_block_that_was_computed_twice_is_evicted_twice [FewBlocks],
        what_ends_in_one_step_gives_its_blocks_back_in_the_order_of_the_batch [FewBlocks Fcfs],
    }
    events {
        each_copy_of_a_block_is_stored_and_removed_by_itself [FewBlocks KvEvents],
        how_far_events_lag_behind_their_tokens_is_measured [KvEvents],
    }
    structured {
        json_follows_its_schema [Model],
        a_regex_is_followed [Model],
        a_choice_is_one_of_its_strings [Model],
        a_grammar_is_followed [Model],
        any_json_object_begins_as_one [Model],
        a_broken_regex_or_grammar_ends_at_once [Model],
        a_broken_structural_tag_is_an_engine_error [Model],
        no_json_object_is_no_constraint,
    }
    errors {
        prompts_are_checked,
        names_are_checked,
        numbers_are_checked,
        ids_are_checked,
        lengths_are_checked,
        structures_are_checked,
        the_engine_serves_after_every_error,
    }
    cache {
        a_repeated_prompt_reports_its_full_blocks,
        the_last_block_is_never_all_cached,
        bypass_reads_nothing,
        salts_do_not_share,
        any_salt_is_accepted,
        generated_blocks_are_cached_too [Model],
        a_pause_clears_the_cache_unless_told_not_to,
    }
    metadata {
        a_rank_that_is_served_is_accepted,
        a_rank_that_is_not_served_is_refused,
        a_rank_that_is_no_number_is_refused,
        the_first_of_two_ranks_counts,
        other_metadata_is_ignored,
    }
    pass_through {
        options_for_the_engine_change_no_greedy_token,
        any_request_id_is_accepted,
        one_sequence_is_the_default,
        transfer_parameters_without_a_connector_are_ignored [NoConnector],
    }
    transport {
        a_compressed_request_is_unimplemented,
        an_unknown_method_or_service_is_unimplemented,
        garbage_is_an_internal_error,
        a_message_of_five_mebibytes_is_taken,
        a_message_beyond_32_mebibytes_is_out_of_range,
        there_is_no_reflection,
    }
    deadline {
        an_expired_deadline_ends_a_unary_call [Slow],
        a_deadline_binds_a_stream_only_until_it_opens [Slow],
        an_expired_deadline_frees_the_engine [Slow],
    }
    cancel {
        dropping_a_stream_frees_the_engine [Slow],
        dropping_a_unary_call_frees_the_engine [Slow],
        a_dropped_stream_in_the_queue_never_runs [Slow OneAtATime],
        a_dropped_unary_call_in_the_queue_never_runs [Slow OneAtATime],
        after_a_dropped_call_the_next_is_served [Slow],
    }
    abort {
        a_running_stream_ends_aborted [Slow],
        a_running_unary_call_returns_its_tokens [Slow],
        a_queued_stream_ends_aborted,
        a_queued_unary_call_ends_aborted,
        unknown_ids_and_no_ids_change_nothing [Slow],
        every_call_with_the_id_ends [Slow],
        only_the_whole_id_counts [Slow],
        an_abort_frees_the_engine [Slow],
    }
    pause {
        an_aborting_pause_ends_what_runs [Slow],
        an_unspecified_pause_aborts [Slow],
        a_waiting_pause_lets_what_runs_finish [Slow],
        a_keeping_pause_freezes_what_runs [Slow],
        a_pause_that_keeps_and_clears_drops_the_cache_and_no_token [Slow Model],
        requests_wait_while_paused,
        the_state_is_reported,
        an_unknown_mode_is_refused,
        resuming_twice_is_harmless,
        health_and_discovery_go_on_while_paused,
    }
    weights {
        the_version_can_be_set_and_read,
        a_blank_version_is_refused,
        a_fresh_engine_is_at_default [Fresh],
        without_a_backend_every_step_is_refused_first [WeightTransferOff],
        the_session_has_an_order [WeightTransfer],
        payloads_are_checked_before_the_session [WeightTransfer],
        drafts_need_a_draft_model [WeightTransfer],
    }
    features_off {
        adapters_are_refused [LoraOff],
        sleep_is_refused [SleepOff],
        media_are_refused,
        features_beyond_16_mebibytes_exhaust_a_resource,
    }
    end_of_life {
        a_dead_engine_fails_calls_and_health_but_not_discovery [Disposable Scripts],
        a_shutdown_is_announced_and_ends_what_runs [Disposable Slow],
        a_shutdown_refuses_new_connections [Disposable],
    }
    scripted {
        a_failed_request_is_internal_after_its_tokens [Scripts],
        an_aborted_request_is_ok [Scripts],
        an_abort_releases_the_text_that_was_held_back [Scripts],
        special_tokens_have_text_only_when_asked [Scripts],
        half_characters_wait_for_the_rest [Scripts],
        terminal_parameters_come_back_as_doubles [Scripts],
        a_sampling_mask_comes_whole_at_the_end [Scripts],
        several_tokens_may_come_at_once [Scripts],
        a_silent_engine_runs_into_the_deadline [Scripts],
        a_prefill_returns_transfer_parameters [Scripts],
        a_stop_string_loses_transfer_parameters [Scripts],
        a_stop_string_in_the_last_token_keeps_transfer_parameters [Scripts],
    }
}

/// Skips are part of the result: each with its reason, and how many.
#[tokio::test]
async fn what_this_engine_cannot_show_is_counted() {
    needs::report(CASES, &target::Target::open(&[]).await);
}
