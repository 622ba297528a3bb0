from peers.workloads import WORKLOADS

import hiddenstate


def test_list_names_every_workload(run, capfd):
    assert run("bench", "--list").exit_code == 0
    listed = [line.split()[0] for line in capfd.readouterr().out.splitlines()]
    assert listed == list(WORKLOADS)


def test_an_unknown_workload_or_peer_is_a_sentence(run, capfd):
    assert run("bench", "--only", "hmm,sorting").exit_code == 2
    assert "--only names 'sorting'; it takes hmm, kalman" in capfd.readouterr().err
    assert run("bench", "--peers", "excel").exit_code == 2
    assert "--peers names 'excel'; it takes torch, hmmlearn" in capfd.readouterr().err


def test_without_a_checkout_it_says_where_to_get_one(run, monkeypatch, tmp_path):
    monkeypatch.setattr(hiddenstate, "__file__", str(tmp_path / "lib" / "hiddenstate" / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    done = run("bench", "--list")
    assert done.exit_code == 2
    assert "clone the project's repository" in done.stderr
