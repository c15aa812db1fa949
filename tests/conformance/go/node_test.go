package conformance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What operators ask of the nodes themselves.

func TestSnapshotsAreSavedByASchedule(t *testing.T) {
	logical := connect(t).Logical()
	folder := t.TempDir()
	config := map[string]any{"storage_type": "local", "path_prefix": folder, "interval": "1h",
		"retain": 2, "local_max_space": "1GiB", "file_prefix": "go"}
	const path = "sys/storage/raft/snapshot-auto/config/go"
	eventually(t, "the cluster has the feature level", func() bool {
		_, err := logical.Write(path, config)
		return err == nil
	})
	read := got(logical.Read(path))(t).Data
	equal(t, []any{read["path_prefix"], read["file_prefix"], number(t, read["interval"])},
		[]any{folder, "go", int64(3600)})
	listed := got(logical.List("sys/storage/raft/snapshot-auto/config"))(t).Data["keys"]
	equal(t, listed, any([]any{"go"}))
	eventually(t, "a snapshot is in the folder", func() bool {
		found, err := filepath.Glob(filepath.Join(folder, "go-*.snap"))
		return err == nil && len(found) == 1
	})
	eventually(t, "the status tells of it", func() bool {
		status := got(logical.Read("sys/storage/raft/snapshot-auto/status/go"))(t).Data
		return status["last_snapshot_url"] != "" && status["last_snapshot_error"] == ""
	})
	got(logical.Delete(path))(t)
	_, err := logical.Write(path, map[string]any{"storage_type": "aws-s3", "interval": "1h"})
	refused(t, err, 400, "storage_type")
}

func TestAutopilotIsConfigured(t *testing.T) {
	sys := connect(t).Sys()
	before := got(sys.RaftAutopilotConfiguration())(t)
	changed := *before
	changed.ServerStabilizationTime = before.ServerStabilizationTime + 2*time.Second
	must(t, sys.PutRaftAutopilotConfiguration(&changed))
	equal(t, *got(sys.RaftAutopilotConfiguration())(t), changed)
	must(t, sys.PutRaftAutopilotConfiguration(before))
	state := got(sys.RaftAutopilotState())(t)
	equal(t, []int{len(state.Servers), len(state.Voters)}, []int{3, 3})
	if state.Servers[state.Leader] == nil || state.Servers[state.Leader].Status != "leader" {
		t.Fatalf("leader is %q of %+v", state.Leader, state.Servers)
	}
}

func TestTheLogIsFollowed(t *testing.T) {
	client := connect(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := client.Sys().Monitor(ctx, "loud", "json")
	refused(t, err, 400, "unknown log level")
	lines := got(client.Sys().Monitor(ctx, "debug", "json"))(t)
	got(client.Logical().Write("sys/config/reload/log_level", nil))(t)
	late := time.After(60 * time.Second)
	for {
		select {
		case line, open := <-lines:
			if !open {
				t.Fatal("the log has ended")
			}
			if strings.Contains(line, "an operator reloads log_level") {
				return
			}
		case <-late:
			t.Fatal("the line never came")
		}
	}
}

func TestTheKeyringIsRotatedByItself(t *testing.T) {
	logical := connect(t).Logical()
	before := got(logical.Read("sys/rotate/config"))(t).Data
	equal(t, before["enabled"], any(true))
	got(logical.Write("sys/rotate/config", map[string]any{"enabled": true, "max_operations": 2000000,
		"interval": "24h"}))(t)
	after := got(logical.Read("sys/rotate/config"))(t).Data
	equal(t, []any{number(t, after["max_operations"]), after["interval"]}, []any{int64(2000000), "24h0m0s"})
	got(logical.Write("sys/rotate/config", map[string]any{"enabled": true, "interval": 0,
		"max_operations": before["max_operations"]}))(t)
}

func TestHeadersOfTheUserInterface(t *testing.T) {
	logical := connect(t).Logical()
	const path = "sys/config/ui/headers/X-Go"
	got(logical.Write(path, map[string]any{"values": []string{"one", "two"}}))(t)
	equal(t, got(logical.Read(path))(t).Data["value"], any("one"))
	listed := got(logical.List("sys/config/ui/headers"))(t).Data["keys"]
	equal(t, listed, any([]any{"X-Go"}))
	got(logical.Delete(path))(t)
	_, err := logical.Write("sys/config/ui/headers/X-Vault-Go", map[string]any{"values": "one"})
	refused(t, err, 400, "X-Vault")
}

func TestPathsThatAreSwitchedOff(t *testing.T) {
	client := connect(t)
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"sys/raw/core/mounts":              {404, "unsupported path"},
		"sys/internal/inspect/router/root": {400, "introspection_endpoint"},
		"sys/pprof":                        {404, "Profiles of a running node are not built"},
		"sys/pprof/heap":                   {404, "Profiles of a running node are not built"},
	} {
		_, err := client.RawRequest(client.NewRequest("GET", "/v1/"+path))
		refused(t, err, want.status, want.text)
	}
	if secret := got(client.Logical().Read("sys/raw/core/mounts"))(t); secret != nil {
		t.Fatalf("raw storage has %+v", secret)
	}
	for _, path := range []string{"", "/monthly", "/export"} {
		secret := got(client.Logical().Read("sys/internal/counters/activity" + path))(t)
		if secret != nil {
			t.Fatalf("clients are counted: %+v", secret)
		}
	}
}

func TestBackupsOfTheRecoveryKey(t *testing.T) {
	sys := connect(t).Sys()
	_, err := sys.RekeyRetrieveRecoveryBackup()
	refused(t, err, 400, "no backed-up keys")
	must(t, sys.RekeyDeleteRecoveryBackup())
}

func TestASnapshotIsSavedToAFile(t *testing.T) {
	file := got(os.Create(filepath.Join(t.TempDir(), "snapshot")))(t)
	defer file.Close()
	must(t, connect(t).Sys().RaftSnapshot(file))
	if size := got(file.Stat())(t).Size(); size == 0 {
		t.Fatal("the snapshot is empty")
	}
}
