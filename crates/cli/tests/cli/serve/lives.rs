//! Servers that are stopped, killed and started again: their runs go on, and end as undisturbed ones do.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Serving, consult, debate, fibonacci, home, names};
use crate::exec::until;

/// What a run came to, apart from its name and times.
fn came_to(serving: &Serving<'_>, run: &str) -> Value {
    let mut shown = serving.end_of(run);
    assert_eq!(shown["status"], "done", "{shown}");
    let mut result = shown["result"].take();
    for name in ["made", "spent"] {
        result.as_object_mut().unwrap().remove(name);
    }
    if let Some(history) = result["history"].as_array_mut() {
        for attempt in history {
            attempt["execution"] = attempt["execution"]["stdout"].take();
        }
    }
    result
}

/// What was told of a run, apart from when and in which order: side by side, things happen in many.
fn told_of(serving: &Serving<'_>, run: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let told = serving.told(run, None).into_iter().skip(1);
    // How many calls were under way when the server died differs each time.
    for mut told in told.filter(|told| told.name != "calls_lost") {
        for name in ["run", "at", "duration_ms"] {
            told.data.as_object_mut().unwrap().remove(name);
        }
        *counts.entry(format!("{} {}", told.name, told.data)).or_default() += 1;
    }
    counts
}

fn ten() -> Vec<Value> {
    let mut all = vec![consult(), consult()];
    all.extend((0..5).map(|_| debate()));
    all.extend((0..3).map(|_| fibonacci()));
    all
}

#[test]
fn killed_in_the_middle_of_ten_runs_it_goes_on_with_all() {
    let calm = home();
    let serving = Serving::start(&calm, &[]);
    let undisturbed: Vec<(Value, BTreeMap<String, usize>)> = ten()
        .into_iter()
        .map(|what| {
            let run = serving.begin(what);
            (came_to(&serving, &run), told_of(&serving, &run))
        })
        .collect();
    drop(serving);
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "30");
    let serving = Serving::start(&home, &[]);
    let runs: Vec<String> = ten().into_iter().map(|what| serving.begin(what)).collect();
    let kills: u32 =
        std::env::var("ASSIZE_TEST_KILLS").map_or(2, |count| count.parse::<u32>().unwrap() / 10);
    let mut serving = serving;
    let mut dice = fastrand::Rng::with_seed(0xa55);
    for _ in 0..kills.max(2) {
        // Somewhere in the middle: after so many events more.
        let some = runs[dice.usize(..7)].clone();
        serving.block_on(async {
            let mut stream = serving.follow(&format!("/api/runs/{some}/events"), None).await;
            for _ in 0..dice.usize(2..12) {
                stream.next().await;
            }
        });
        serving.kill();
        serving = Serving::start(&home, &[]);
    }
    for (run, (result, told)) in runs.iter().zip(&undisturbed) {
        assert_eq!(&came_to(&serving, run), result, "{run}");
        assert_eq!(&told_of(&serving, run), told, "{run}");
    }
    assert_eq!(serving.stop(), 0);
}

#[test]
fn stopped_it_keeps_what_is_done_and_goes_on_later() {
    // So slow that the debate is under way until the server is stopped.
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "200");
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(debate());
    let seen = serving.block_on(async {
        let mut stream = serving.follow(&format!("/api/runs/{run}/events"), None).await;
        let mut seen = Vec::new();
        while seen.len() < 3 {
            seen.push(stream.next().await.unwrap());
        }
        seen
    });
    let cancelled = serving.begin(debate());
    serving.post(&format!("/api/runs/{cancelled}/cancel"), json!({})).good();
    serving.end_of(&cancelled);
    assert_eq!(serving.stop(), 0);
    let listed: Value = serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
    let status = |id: &str| {
        let all = listed.as_array().unwrap().iter();
        all.clone().find(|run| run["id"] == json!(id)).unwrap()["status"].clone()
    };
    assert_eq!((status(&run), status(&cancelled)), (json!("stopped"), json!("cancelled")));
    // Whoever was connected calls again, and hears the rest.
    let serving = Serving::start(&home, &[]);
    let rest = serving.told(&run, seen.last().unwrap().id);
    assert_eq!(*names(&rest).last().unwrap(), "run_ended");
    let whole = serving.told(&run, None);
    let again: Vec<_> = seen[1..].iter().chain(&rest[1..]).collect();
    assert!(again.into_iter().eq(&whole[1..]));
    // What somebody stopped stays stopped.
    assert_eq!(serving.get(&format!("/api/runs/{cancelled}")).good()["status"], "cancelled");
}

#[test]
fn a_run_of_a_command_that_was_killed_is_left_to_its_user() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "50");
    home.write("MOVE.md", crate::debate::MOVE);
    let mut command = home.command(&["debate", "MOVE.md"]).spawn().unwrap();
    let listed =
        || serde_json::from_str::<Value>(&home.run(&["runs", "list", "--json"]).out).unwrap();
    until("the run", || listed()[0]["id"].is_string());
    let serving = Serving::start(&home, &[]);
    let run = listed()[0]["id"].as_str().unwrap().to_owned();
    // It is under way elsewhere.
    serving.post(&format!("/api/runs/{run}/resume"), json!({})).refused(409);
    command.kill().unwrap();
    command.wait().unwrap();
    drop(serving);
    let serving = Serving::start(&home, &[]);
    assert_eq!(serving.get(&format!("/api/runs/{run}")).good()["status"], "stopped");
    assert_eq!(serving.get("/api/runs?status=stopped").good()["runs"].as_array().unwrap().len(), 1);
    assert_eq!(serving.post(&format!("/api/runs/{run}/resume"), json!({})).status, 201);
    assert_eq!(serving.end_of(&run)["status"], "done");
}

#[test]
fn two_servers_on_one_store_do_not_disturb_each_other() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "400");
    let one = Serving::start(&home, &[]);
    let run = one.begin(debate());
    let two = Serving::start(&home, &[]);
    // The other shows it, and follows it, and leaves it alone.
    let shown = two.get(&format!("/api/runs/{run}")).good();
    assert_eq!((&shown["status"], &shown["held_here"]), (&json!("running"), &json!(false)));
    let (there, here) = (two.told(&run, None), one.told(&run, None));
    assert_eq!(there[1..], here[1..]);
    // Unless somebody asks it to stop it.
    let run = one.begin(debate());
    let stopped = two.post(&format!("/api/runs/{run}/cancel"), json!({}));
    assert_eq!((stopped.status, &stopped.json()["status"]), (202, &json!("cancelled")));
    until("the end of it there", || {
        one.get("/metrics").text.contains("{kind=\"debate\",how=\"cancelled\"} 1\n")
    });
    let told = one.told(&run, None);
    assert_eq!(names(&told).iter().filter(|name| **name == "run_ended").count(), 1, "{told:?}");
    two.post(&format!("/api/runs/{run}/cancel"), json!({})).refused(409);
}

#[test]
fn a_new_server_leaves_the_work_of_a_living_one_alone() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "600");
    let one = Serving::start(&home, &[]);
    let two = Serving::start(&home, &[]);
    let (left, held) = (one.begin(debate()), two.begin(debate()));
    one.kill();
    let three = Serving::start(&home, &[]);
    let here = |serving: &Serving<'_>, run: &str| {
        serving.get(&format!("/api/runs/{run}")).good()["held_here"].clone()
    };
    assert_eq!((here(&three, &left), here(&three, &held)), (json!(true), json!(false)));
    assert_eq!(here(&two, &held), true);
    assert_eq!(two.end_of(&held)["status"], "done");
    assert_eq!(three.end_of(&left)["status"], "done");
    let shown = serde_json::from_str::<Value>(&home.run(&["runs", "show", &held, "--json"]).out);
    assert_eq!(shown.unwrap()["epoch"], 1);
}

#[test]
fn of_many_who_take_a_run_up_one_does() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "100");
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(debate());
    serving.post(&format!("/api/runs/{run}/cancel"), json!({})).good();
    serving.end_of(&run);
    let request = || {
        let path = format!("{}/api/runs/{run}/resume", serving.address);
        serving.client.post(path).bearer_auth(&serving.token).send()
    };
    let mut statuses: Vec<u16> = serving.block_on(async {
        let mut all = tokio::task::JoinSet::new();
        (0..20).for_each(|_| drop(all.spawn(request())));
        all.join_all().await.into_iter().map(|answer| answer.unwrap().status().as_u16()).collect()
    });
    statuses.sort_unstable();
    assert_eq!((statuses[0], &statuses[1..]), (201, &[409; 19][..]));
    assert_eq!(serving.end_of(&run)["status"], "done");
}

#[test]
fn nobody_who_is_slow_keeps_it_from_stopping() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "100");
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(debate());
    let lines = [
        "GET /api/runs HTTP/1.1\r\nHo",
        "POST /api/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
    ];
    let open: Vec<_> = lines
        .iter()
        .map(|half| {
            let mut line =
                std::net::TcpStream::connect(format!("127.0.0.1:{}", serving.port())).unwrap();
            std::io::Write::write_all(&mut line, half.as_bytes()).unwrap();
            line
        })
        .collect();
    assert_eq!(serving.stop(), 0);
    drop(open);
    let shown = home.run(&["runs", "show", &run, "--json"]).out;
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["status"], "stopped", "{shown}");
    let serving = Serving::start(&home, &[]);
    assert_eq!(serving.end_of(&run)["status"], "done");
}

#[test]
fn what_was_left_and_is_stopped_does_not_go_on() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "600");
    let serving = Serving::start(&home, &[]);
    let (run, other) = (serving.begin(debate()), serving.begin(debate()));
    let second = Serving::start(&home, &[]);
    let cancel = format!("/api/runs/{run}/cancel");
    // Once it answers, it has seen that somebody else has both.
    assert_eq!(second.get(&format!("/api/runs/{run}")).good()["status"], "running");
    serving.kill();
    assert_eq!(second.get(&format!("/api/runs/{run}")).good()["status"], "stopped");
    let stopped = second.post(&cancel, json!({}));
    assert_eq!((stopped.status, &stopped.json()["status"]), (202, &json!("cancelled")));
    assert_eq!(second.told(&run, None).last().unwrap().name, "run_ended");
    second.kill();
    let serving = Serving::start(&home, &[]);
    assert_eq!(serving.end_of(&other)["status"], "done");
    assert_eq!(serving.get(&format!("/api/runs/{run}")).good()["status"], "cancelled");
    assert_eq!(serving.post(&format!("/api/runs/{run}/resume"), json!({})).status, 201);
    assert_eq!(serving.end_of(&run)["status"], "done");
}

#[test]
fn files_outside_of_what_was_allowed_are_left_alone() {
    let home =
        crate::drafts::project().set("PATH", super::PATH).set("ASSIZE_REHEARSAL_LATENCY_MS", "200");
    let mut command = home.command(&["work", "Add --version flag to watchdog.py"]).spawn().unwrap();
    let listed =
        || serde_json::from_str::<Value>(&home.run(&["runs", "list", "--json"]).out).unwrap();
    until("the run", || listed()[0]["id"].is_string());
    command.kill().unwrap();
    command.wait().unwrap();
    let run = listed()[0]["id"].as_str().unwrap().to_owned();
    let serving = Serving::start(&home, &[]);
    serving.post(&format!("/api/runs/{run}/resume"), json!({})).refused(403);
    drop(serving);
    let serving = Serving::start(&home, &["--root", "mine=."]);
    assert_eq!(serving.post(&format!("/api/runs/{run}/resume"), json!({})).status, 201);
    assert_eq!(serving.end_of(&run)["result"]["outcome"], "accepted");
}
