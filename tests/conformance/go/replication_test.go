//go:build !openbao

package conformance

import (
	"encoding/base64"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/vault/api"
)

const dr = "sys/replication/dr/"

// replication has the status of disaster recovery, which needs no token.
func replication(t *testing.T, client *api.Client) api.ReplicationStatusGenericResponse {
	t.Helper()
	told := got(client.Sys().ReplicationStatus())(t)
	equal(t, told.Performance.Mode, "disabled")
	return told.DR
}

// One test, because a pair of clusters goes from its beginning to a planned failover.
func TestAPairOfClustersIsMadeAndFailsOver(t *testing.T) {
	urls, token := addresses("HOLDFAST_PAIR"), os.Getenv("HOLDFAST_PAIR_TOKEN")
	primary, secondary := connectTo(t, urls[0], token), connectTo(t, urls[1], token)
	equal(t, replication(t, primary).Mode, "disabled")
	eventually(t, "the cluster becomes a primary", func() bool { // its feature level may still rise
		made, err := primary.Logical().Write(dr+"primary/enable", map[string]any{})
		return err == nil && len(made.Warnings) == 1
	})
	got(primary.Logical().Write("kv/replicated", map[string]any{"x": "y"}))(t)
	follow(t, primary, secondary)

	health := got(secondary.Sys().Health())(t)
	equal(t, []any{health.ReplicationDRMode, health.Sealed}, []any{"secondary", false})
	equal(t, got(primary.Sys().Health())(t).ReplicationDRMode, "primary")
	_, err := secondary.Logical().Read("kv/replicated")
	refused(t, err, http.StatusBadRequest, "path disabled in replication DR secondary mode")

	operation := operationToken(t, secondary)
	serveOperationToken(t, secondary, operation)
	failOver(t, primary, secondary, operation)
}

// follow makes the second cluster a secondary of the first, and waits for the stream.
func follow(t *testing.T, primary, secondary *api.Client) {
	t.Helper()
	made := got(primary.Logical().Write(dr+"primary/secondary-token", map[string]any{"id": "go"}))(t)
	_, err := primary.Logical().Write(dr+"primary/secondary-token", map[string]any{"id": "go"})
	refused(t, err, http.StatusBadRequest, "")
	equal(t, replication(t, primary).KnownSecondaries, []string{"go"})
	enabled := map[string]any{"token": made.WrapInfo.Token, "ca_file": os.Getenv("HOLDFAST_PAIR_CA")}
	secondary.SetToken(os.Getenv("HOLDFAST_PAIR_OTHER_TOKEN"))
	eventually(t, "the cluster becomes a secondary", func() bool {
		_, err := secondary.Logical().Write(dr+"secondary/enable", enabled)
		return err == nil
	})
	eventually(t, "the stream flows", func() bool {
		status := replication(t, secondary)
		return status.Mode == "secondary" && status.State == "stream-wals" && status.LastRemoteWAL > 0
	})
	eventually(t, "the primary sees its secondary", func() bool {
		status := replication(t, primary)
		return len(status.Secondaries) == 1 && status.Secondaries[0].ConnectionStatus == "connected"
	})
	seen := replication(t, primary).Secondaries[0]
	equal(t, []string{seen.NodeID, seen.APIAddr}, []string{"go", secondary.Address()})
	if seen.LastHeartBeat == "" || seen.ClockSkewMillis == "" {
		t.Fatalf("the secondary is %+v", seen)
	}
	status := replication(t, secondary)
	equal(t, status.SecondaryID, "go")
	equal(t, status.ClusterID, replication(t, primary).ClusterID)
	if len(status.Primaries) != 1 || status.Primaries[0].APIAddr != primary.Address() {
		t.Fatalf("the primaries are %+v", status.Primaries)
	}
}

// operationToken makes a DR operation token by shares of the recovery key.
func operationToken(t *testing.T, secondary *api.Client) string {
	t.Helper()
	sys := secondary.Sys()
	begun := got(sys.GenerateDROperationTokenInit("", ""))(t)
	equal(t, []any{begun.Started, begun.Progress}, []any{true, 0})
	must(t, sys.GenerateDROperationTokenCancel())
	equal(t, got(sys.GenerateDROperationTokenStatus())(t).Started, false)
	begun = got(sys.GenerateDROperationTokenInit("", ""))(t)
	var last *api.GenerateRootStatusResponse
	for _, key := range strings.Split(os.Getenv("HOLDFAST_PAIR_KEYS"), ",")[:begun.Required] {
		last = got(sys.GenerateDROperationTokenUpdate(key, begun.Nonce))(t)
	}
	equal(t, last.Complete, true)
	mixed := got(base64.RawStdEncoding.DecodeString(last.EncodedToken))(t)
	for i := range mixed {
		mixed[i] ^= begun.OTP[i]
	}
	return string(mixed)
}

// serveOperationToken asks for what operators may see of a secondary.
func serveOperationToken(t *testing.T, secondary *api.Client, operation string) {
	t.Helper()
	_, err := secondary.Sys().RaftAutopilotState()
	refused(t, err, http.StatusBadRequest, "path disabled in replication DR secondary mode")
	state := got(secondary.Sys().RaftAutopilotStateWithDRToken(operation))(t)
	equal(t, len(state.Servers), 1)
	config := got(secondary.Sys().RaftAutopilotConfigurationWithDRToken(operation))(t)
	if config.ServerStabilizationTime == 0 {
		t.Fatalf("the configuration is %+v", config)
	}
	secondary.ClearToken()
	_, err = secondary.Sys().RaftAutopilotState()
	refused(t, err, http.StatusBadRequest, "path disabled in replication DR secondary mode")
	servers := got(secondary.Logical().Write("sys/storage/raft/configuration",
		map[string]any{"dr_operation_token": operation}))(t)
	if servers.Data["config"] == nil {
		t.Fatalf("the configuration is %+v", servers.Data)
	}
}

// failOver demotes the primary, promotes the secondary when it has everything, and reads there.
func failOver(t *testing.T, primary, secondary *api.Client, operation string) {
	t.Helper()
	body := map[string]any{"dr_operation_token": operation}
	got(primary.Logical().Write(dr+"primary/demote", nil))(t)
	eventually(t, "the cluster is promoted", func() bool {
		done, err := secondary.Logical().Write(dr+"secondary/promote", body)
		return err == nil && done.Data["complete"] == true
	})
	secondary.SetToken(os.Getenv("HOLDFAST_PAIR_TOKEN"))
	eventually(t, "the promoted cluster writes", func() bool {
		_, err := secondary.Logical().Write("kv/after", map[string]any{"x": "z"})
		return err == nil
	})
	equal(t, got(secondary.Logical().Read("kv/replicated"))(t).Data["x"], any("y"))
	equal(t, replication(t, secondary).Mode, "primary")
	equal(t, replication(t, primary).Mode, "secondary")
}
