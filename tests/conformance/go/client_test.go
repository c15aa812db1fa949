// Package conformance drives a running cluster with upstream's own Go client, unmodified.
//
// The environment names the cluster as it does for any user of that client (VAULT_ADDR,
// VAULT_CACERT, VAULT_TOKEN). HOLDFAST_NODES has the addresses of all nodes, HOLDFAST_SEALED those
// of a second cluster that was not initialised yet, HOLDFAST_AUTHORITY the folder with its
// certificate authority, and HOLDFAST_BARE the address of a node that waits to join it.
// HOLDFAST_HOLDERS and HOLDFAST_RECOVERING have those of two nodes that were not initialised either: of
// the first with key shares, of the second with a key that unseals it.
// HOLDFAST_PAIR has the addresses of two nodes that become a pair of disaster recovery, HOLDFAST_PAIR_TOKEN
// and HOLDFAST_PAIR_OTHER_TOKEN their root tokens, HOLDFAST_PAIR_KEYS shares of the recovery key of the
// first, and HOLDFAST_PAIR_CA the file with its authority.
// HOLDFAST_LAMPS has the address of a node whose engine at lamp/ lends, HOLDFAST_LAMPS_TOKEN its token.
package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"

	"holdfast/conformance/record"
)

const appPolicy = `path "secret/data/app/*" { capabilities = ["create", "read", "update"] }`

// connect makes a client as a user does: from the environment.
func connect(t *testing.T) *api.Client {
	t.Helper()
	config := api.DefaultConfig()
	must(t, config.Error)
	config.HttpClient.Transport = record.Transport{Next: config.HttpClient.Transport}
	client, err := api.NewClient(config)
	must(t, err)
	return client
}

// connectTo makes a client of one node, with a token of its own.
func connectTo(t *testing.T, address, token string) *api.Client {
	t.Helper()
	client := connect(t)
	must(t, client.SetAddress(address))
	client.SetToken(token)
	return client
}

func addresses(name string) []string { return strings.Split(os.Getenv(name), ",") }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func got[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

func equal(t *testing.T, have, want any) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Fatalf("have %#v, want %#v", have, want)
	}
}

func number(t *testing.T, value any) int64 {
	t.Helper()
	return got(value.(json.Number).Int64())(t)
}

// refused demands an error of the server with this status and text.
func refused(t *testing.T, err error, status int, text string) {
	t.Helper()
	var answer *api.ResponseError
	if !errors.As(err, &answer) {
		t.Fatalf("want an error of the server, have %v", err)
	}
	if answer.StatusCode != status || !strings.Contains(strings.Join(answer.Errors, " "), text) {
		t.Fatalf("want %d with %q, have %v", status, text, err)
	}
}

// eventually polls, because one node may lag behind what another one has told.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestEveryNodeTellsItsHealthLeaderAndSeal(t *testing.T) {
	nodes := addresses("HOLDFAST_NODES")
	for _, address := range nodes {
		client := connectTo(t, address, "")
		health := got(client.Sys().Health())(t)
		if !health.Initialized || health.Sealed || health.ServerTimeUTC == 0 || health.Version == "" {
			t.Fatalf("health is %+v", health)
		}
		leader := got(client.Sys().Leader())(t)
		if !leader.HAEnabled || !strings.Contains(strings.Join(nodes, ","), leader.LeaderAddress) ||
			leader.IsSelf != (leader.LeaderAddress == address) {
			t.Fatalf("leader is %+v", leader)
		}
		seal := got(client.Sys().SealStatus())(t)
		equal(t, []bool{seal.Initialized, seal.Sealed}, []bool{true, false})
		equal(t, seal.Version, health.Version)
		equal(t, got(client.Sys().InitStatus())(t), true)
	}
}

func TestEveryNodeIsInTheConfiguration(t *testing.T) {
	secret := got(connect(t).Logical().Read("sys/storage/raft/configuration"))(t)
	servers := secret.Data["config"].(map[string]any)["servers"].([]any)
	equal(t, len(servers), len(addresses("HOLDFAST_NODES")))
}

func TestAWrongTokenIsForbidden(t *testing.T) {
	client := connect(t)
	client.SetToken("hvs.nobody-nobody-nobody-nobody")
	_, err := client.Logical().Read("secret/data/x")
	refused(t, err, http.StatusForbidden, "permission denied")
	client.ClearToken()
	_, err = client.Auth().Token().LookupSelf()
	refused(t, err, http.StatusForbidden, "permission denied")
}

func TestTheKeyringIsRotated(t *testing.T) {
	sys := connect(t).Sys()
	before := got(sys.KeyStatus())(t)
	must(t, sys.Rotate())
	after := got(sys.KeyStatus())(t)
	equal(t, after.Term, before.Term+1)
	if after.InstallTime.Before(before.InstallTime) {
		t.Fatalf("%v before %v", after.InstallTime, before.InstallTime)
	}
}

func TestMountsAreMadeTunedMovedAndRemoved(t *testing.T) {
	client := connect(t)
	sys := client.Sys()
	must(t, sys.Mount("go/one", &api.MountInput{Type: "kv", Description: "one",
		Config: api.MountConfigInput{DefaultLeaseTTL: "1h"}, Options: map[string]string{"version": "1"}}))
	mount := got(sys.ListMounts())(t)["go/one/"]
	equal(t, []string{mount.Type, mount.Description}, []string{"kv", "one"})
	equal(t, mount.Options, map[string]string{"version": "1"})
	equal(t, mount.Config.DefaultLeaseTTL, 3600)
	two := "two"
	must(t, sys.TuneMount("go/one", api.MountConfigInput{DefaultLeaseTTL: "2h", MaxLeaseTTL: "3h",
		Description: &two, ListingVisibility: "unauth"}))
	config := got(sys.MountConfig("go/one"))(t)
	equal(t, []int{config.DefaultLeaseTTL, config.MaxLeaseTTL}, []int{7200, 10800})
	equal(t, config.ListingVisibility, "unauth")
	must(t, client.KVv1("go/one").Put(context.Background(), "a", map[string]any{"b": "c"}))
	must(t, sys.Remount("go/one", "go-two"))
	secret := got(client.KVv1("go-two").Get(context.Background(), "a"))(t)
	equal(t, secret.Data, map[string]any{"b": "c"})
	err := sys.Mount("go-two", &api.MountInput{Type: "kv"})
	refused(t, err, http.StatusBadRequest, "in use")
	must(t, sys.Unmount("go-two"))
	_, there := got(sys.ListMounts())(t)["go-two/"]
	equal(t, there, false)
}

func TestAuthMountsAreListed(t *testing.T) {
	sys := connect(t).Sys()
	equal(t, got(sys.ListAuth())(t)["token/"].Type, "token")
	must(t, sys.TuneMount("auth/token", api.MountConfigInput{DefaultLeaseTTL: "700h"}))
	equal(t, got(sys.MountConfig("auth/token"))(t).DefaultLeaseTTL, 700*3600)
}

func TestPoliciesAreWrittenReadListedAndDeleted(t *testing.T) {
	sys := connect(t).Sys()
	must(t, sys.PutPolicy("go-app", appPolicy))
	equal(t, got(sys.GetPolicy("go-app"))(t), appPolicy)
	names := strings.Join(got(sys.ListPolicies())(t), " ")
	if !strings.Contains(names, "default") || !strings.Contains(names, "go-app") {
		t.Fatal(names)
	}
	refused(t, sys.PutPolicy("go-bad", `path "x" { capabilities = ["fly"] }`), 400, "")
	must(t, sys.DeletePolicy("go-app"))
	equal(t, got(sys.GetPolicy("go-app"))(t), "")
}

func TestCapabilitiesAreThoseOfThePolicies(t *testing.T) {
	client := connect(t)
	must(t, client.Sys().PutPolicy("go-capable", appPolicy))
	made := got(client.Auth().Token().Create(&api.TokenCreateRequest{Policies: []string{"go-capable"}}))(t)
	want := []string{"create", "read", "update"}
	equal(t, got(client.Sys().Capabilities(made.Auth.ClientToken, "secret/data/app/x"))(t), want)
	equal(t, got(client.Sys().Capabilities(made.Auth.ClientToken, "secret/x"))(t), []string{"deny"})
	equal(t, got(client.Sys().CapabilitiesSelf("secret/x"))(t), []string{"root"})
	mine := connectTo(t, addresses("HOLDFAST_NODES")[2], made.Auth.ClientToken)
	equal(t, got(mine.Sys().CapabilitiesSelf("secret/data/app/x"))(t), want)
	_, err := mine.KVv2("secret").Put(context.Background(), "app/x", map[string]any{"a": "b"})
	must(t, err)
	refused(t, mine.KVv2("secret").Delete(context.Background(), "app/x"), 403, "permission denied")
}

func TestATokenIsMadeLookedUpRenewedAndRevoked(t *testing.T) {
	token := connect(t).Auth().Token()
	made := got(token.Create(&api.TokenCreateRequest{Policies: []string{"default"}, TTL: "1h",
		ExplicitMaxTTL: "4h", DisplayName: "robot", Metadata: map[string]string{"who": "go"}}))(t)
	equal(t, got(made.TokenPolicies())(t), []string{"default"})
	equal(t, got(made.TokenIsRenewable())(t), true)
	equal(t, got(made.TokenTTL())(t), time.Hour)
	equal(t, got(made.TokenMetadata())(t), map[string]string{"who": "go"})
	id, accessor := got(made.TokenID())(t), got(made.TokenAccessor())(t)
	looked := got(token.Lookup(id))(t)
	equal(t, looked.Data["display_name"], "token-robot")
	equal(t, got(looked.TokenAccessor())(t), accessor)
	equal(t, number(t, looked.Data["explicit_max_ttl"]), int64(4*3600))
	equal(t, got(token.LookupAccessor(accessor))(t).Data["id"], "")
	mine := connectTo(t, addresses("HOLDFAST_NODES")[1], id)
	equal(t, got(got(mine.Auth().Token().LookupSelf())(t).TokenID())(t), id)
	equal(t, got(mine.Auth().Token().RenewSelf(7200))(t).Auth.LeaseDuration, 7200)
	equal(t, got(token.Renew(id, 1800))(t).Auth.LeaseDuration, 1800)
	equal(t, got(token.RenewAccessor(accessor, 60))(t).Auth.LeaseDuration, 60)
	equal(t, got(token.RenewTokenAsSelf(id, 120))(t).Auth.LeaseDuration, 120)
	must(t, token.RevokeTree(id))
	_, err := mine.Auth().Token().LookupSelf()
	refused(t, err, http.StatusForbidden, "permission denied")
	_, err = token.Lookup(id)
	refused(t, err, http.StatusForbidden, "bad token")
}

func TestTokensEndByAccessorAndByThemselves(t *testing.T) {
	token := connect(t).Auth().Token()
	made := got(token.Create(&api.TokenCreateRequest{}))(t)
	must(t, token.RevokeAccessor(made.Auth.Accessor))
	_, err := token.Lookup(made.Auth.ClientToken)
	refused(t, err, http.StatusForbidden, "")
	made = got(token.Create(&api.TokenCreateRequest{Policies: []string{"default"}}))(t)
	must(t, connectTo(t, addresses("HOLDFAST_NODES")[0], made.Auth.ClientToken).Auth().Token().RevokeSelf(""))
	_, err = token.Lookup(made.Auth.ClientToken)
	refused(t, err, http.StatusForbidden, "")
}

func TestChildrenEndWithTheirParentUnlessTheyAreOrphans(t *testing.T) {
	token := connect(t).Auth().Token()
	request := &api.TokenCreateRequest{Policies: []string{"root"}, TTL: "1h"}
	child := &api.TokenCreateRequest{Policies: []string{"default"}}
	parent := got(token.Create(request))(t).Auth.ClientToken
	mine := connectTo(t, addresses("HOLDFAST_NODES")[0], parent).Auth().Token()
	kept, lost := got(mine.CreateOrphan(child))(t), got(mine.Create(child))(t)
	must(t, token.RevokeTree(parent))
	equal(t, got(token.Lookup(kept.Auth.ClientToken))(t).Data["orphan"], true)
	_, err := token.Lookup(lost.Auth.ClientToken)
	refused(t, err, http.StatusForbidden, "")
	parent = got(token.Create(request))(t).Auth.ClientToken
	mine = connectTo(t, addresses("HOLDFAST_NODES")[0], parent).Auth().Token()
	kept = got(mine.Create(child))(t)
	must(t, token.RevokeOrphan(parent))
	equal(t, got(token.Lookup(kept.Auth.ClientToken))(t).Data["orphan"], true)
}

func TestBatchPeriodicAndLimitedTokens(t *testing.T) {
	token := connect(t).Auth().Token()
	batch := got(token.Create(&api.TokenCreateRequest{Type: "batch", TTL: "1h",
		Policies: []string{"default"}}))(t)
	equal(t, got(token.Lookup(batch.Auth.ClientToken))(t).Data["type"], "batch")
	_, err := token.Renew(batch.Auth.ClientToken, 60)
	refused(t, err, http.StatusBadRequest, "")
	periodic := got(token.Create(&api.TokenCreateRequest{Period: "30m"}))(t)
	equal(t, got(token.Renew(periodic.Auth.ClientToken, 60))(t).Auth.LeaseDuration, 1800)
	once := got(token.Create(&api.TokenCreateRequest{NumUses: 1}))(t)
	mine := connectTo(t, addresses("HOLDFAST_NODES")[1], once.Auth.ClientToken).Auth().Token()
	equal(t, number(t, got(token.Lookup(once.Auth.ClientToken))(t).Data["num_uses"]), int64(1))
	got(mine.LookupSelf())(t)
	_, err = mine.LookupSelf()
	refused(t, err, http.StatusForbidden, "")
}

func TestRolesOfTokens(t *testing.T) {
	client := connect(t)
	logical := client.Logical()
	got(logical.Write("auth/token/roles/go", map[string]any{"orphan": true, "token_period": "1h"}))(t)
	equal(t, got(logical.Read("auth/token/roles/go"))(t).Data["orphan"], true)
	equal(t, got(logical.List("auth/token/roles"))(t).Data["keys"], []any{"go"})
	made := got(client.Auth().Token().CreateWithRole(&api.TokenCreateRequest{}, "go"))(t)
	equal(t, []any{made.Auth.Orphan, made.Auth.LeaseDuration}, []any{true, 3600})
	got(logical.Delete("auth/token/roles/go"))(t)
	if role := got(logical.Read("auth/token/roles/go"))(t); role != nil {
		t.Fatal(role)
	}
}

func TestAWatcherKeepsATokenAlive(t *testing.T) {
	client := connect(t)
	made := got(client.Auth().Token().Create(&api.TokenCreateRequest{Period: "30s"}))(t)
	mine := connectTo(t, addresses("HOLDFAST_NODES")[2], made.Auth.ClientToken)
	watcher := got(mine.NewLifetimeWatcher(&api.LifetimeWatcherInput{Secret: made}))(t)
	go watcher.Start()
	defer watcher.Stop()
	select {
	case <-watcher.RenewCh():
	case err := <-watcher.DoneCh():
		t.Fatalf("ended: %v", err)
	case <-time.After(60 * time.Second):
		t.Fatal("no renewal")
	}
}

func TestAnswersAreWrappedAndUnwrappedOnce(t *testing.T) {
	client := connect(t)
	wrapping := got(client.Clone())(t)
	wrapping.SetToken(client.Token())
	wrapping.SetWrappingLookupFunc(func(string, string) string { return "2m" })
	info := got(wrapping.Logical().Write("sys/wrapping/wrap", map[string]any{"a": "b"}))(t).WrapInfo
	equal(t, info.TTL, 120)
	equal(t, got(client.Logical().Unwrap(info.Token))(t).Data, map[string]any{"a": "b"})
	_, err := client.Logical().Unwrap(info.Token)
	refused(t, err, http.StatusBadRequest, "wrapping token")
	made := got(wrapping.Auth().Token().Create(&api.TokenCreateRequest{}))(t)
	bearer := connectTo(t, addresses("HOLDFAST_NODES")[1], made.WrapInfo.Token)
	auth := got(bearer.Logical().Unwrap(""))(t).Auth
	equal(t, auth.Accessor, made.WrapInfo.WrappedAccessor)
}

func TestGenericCallsAndTheCubbyhole(t *testing.T) {
	client := connect(t)
	logical := client.Logical()
	got(logical.Write("cubbyhole/a/b", map[string]any{"x": "1"}))(t)
	got(logical.WriteBytes("cubbyhole/c", []byte(`{"n": 12345678901234567890}`)))(t)
	equal(t, got(logical.Read("cubbyhole/c"))(t).Data["n"], json.Number("12345678901234567890"))
	equal(t, got(logical.List("cubbyhole"))(t).Data["keys"], []any{"a/", "c"})
	got(logical.Delete("cubbyhole/c"))(t)
	if secret := got(logical.Read("cubbyhole/c"))(t); secret != nil {
		t.Fatal(secret)
	}
	if secret := got(logical.List("cubbyhole/none"))(t); secret != nil {
		t.Fatal(secret)
	}
	_, err := logical.Write("nowhere/x", map[string]any{"a": "b"})
	refused(t, err, http.StatusNotFound, "no handler for route")
}

// What upstream's `kv` commands ask before anything else.
func TestTheMountOfAPathIsFound(t *testing.T) {
	logical := connect(t).Logical()
	info := got(logical.Read("sys/internal/ui/mounts/secret/some/path"))(t)
	equal(t, info.Data["path"], "secret/")
	equal(t, info.Data["options"].(map[string]any)["version"], "2")
	_, err := logical.Read("sys/internal/ui/mounts/nowhere/x")
	refused(t, err, http.StatusForbidden, "preflight capability check returned 403")
}

// A cache in front of the service takes the time of a reply from its Date and fails without one.
func TestEveryReplyHasADateThatCachesRead(t *testing.T) {
	client := connect(t)
	for _, address := range addresses("HOLDFAST_NODES") {
		must(t, client.SetAddress(address))
		for _, path := range []string{"sys/health", "auth/token/lookup-self", "sys/none", "cubbyhole/none"} {
			request := client.NewRequest(http.MethodGet, "/v1/"+path)
			answer, err := client.RawRequest(request)
			if answer == nil {
				t.Fatal(err)
			}
			got(http.ParseTime(answer.Header.Get("Date")))(t)
		}
	}
}

// The calls of Terraform's provider for its documented example of a mount, a policy and a secret.
func TestWhatTerraformMakesIsReadBackAsItWasSaid(t *testing.T) {
	client := connect(t)
	sys := client.Sys()
	const path, rules = "terraform-kv", "path \"terraform-kv/*\" {\n  capabilities = [\"read\"]\n}\n"
	options := map[string]string{"version": "2", "type": "kv-v2"}
	must(t, sys.Mount(path, &api.MountInput{Type: "kv", Description: "example",
		Config: api.MountConfigInput{DefaultLeaseTTL: "0s", MaxLeaseTTL: "0s"}, Options: options}))
	equal(t, got(sys.ListMounts())(t)[path+"/"].Options, options)
	description := "changed"
	must(t, sys.TuneMount(path, api.MountConfigInput{Description: &description, Options: options}))
	mount := got(sys.ListMounts())(t)[path+"/"]
	equal(t, []any{mount.Type, mount.Description, mount.Options}, []any{"kv", "changed", options})
	must(t, sys.PutPolicy("terraform", rules))
	equal(t, got(sys.GetPolicy("terraform"))(t), rules)
	logical := client.Logical()
	data := map[string]any{"zip": "zap", "foo": "bar"}
	eventually(t, "the mount serves", func() bool {
		_, err := logical.Write(path+"/data/secret", map[string]any{"data": data, "options": map[string]any{}})
		return err == nil
	})
	got(logical.Write(path+"/metadata/secret", map[string]any{"max_versions": 5,
		"custom_metadata": map[string]any{"foo": "bar"}}))(t)
	equal(t, got(logical.Read(path + "/data/secret"))(t).Data["data"], data)
	got(logical.Delete(path + "/metadata/secret"))(t)
	must(t, sys.DeletePolicy("terraform"))
	must(t, sys.Unmount(path))
}

func TestThePluginsAreThoseOfTheProgram(t *testing.T) {
	sys := connect(t).Sys()
	var names []string
	for _, plugin := range got(sys.ListPlugins(&api.ListPluginsInput{}))(t).Details {
		equal(t, plugin.Builtin, true)
		names = append(names, plugin.Name)
	}
	if !slices.Contains(names, "kv") {
		t.Fatal(names)
	}
	kv := got(sys.GetPlugin(&api.GetPluginInput{Name: "kv", Type: api.PluginTypeSecrets}))(t)
	equal(t, []any{kv.Name, kv.Builtin}, []any{"kv", true})
}

// What is not built is said, and a client that reads takes it for absent.
func TestWhatIsNotBuiltIsSaid(t *testing.T) {
	client := connect(t)
	if secret := got(client.Logical().Read("sys/license/status"))(t); secret != nil {
		t.Fatal(secret)
	}
	_, err := client.Logical().Write("sys/license/status", map[string]any{"text": "x"})
	refused(t, err, http.StatusNotFound, "are not built in holdfast")
}

func TestAuditDevicesAreEnabledListedAndDisabled(t *testing.T) {
	client := connect(t)
	sys := client.Sys()
	before := len(got(sys.ListAudit())(t)) // the cluster has one in its configuration file
	refused(t, sys.EnableAuditWithOptions("go", &api.EnableAuditOptions{Type: "file"}), 400, "file_path")
	options := map[string]string{"file_path": "discard", "hmac_accessor": "false"}
	must(t, sys.EnableAuditWithOptions("go/one", &api.EnableAuditOptions{Type: "file", Description: "one",
		Options: options, Local: true}))
	device := got(sys.ListAudit())(t)["go/one/"]
	equal(t, []string{device.Type, device.Description, device.Path}, []string{"file", "one", "go/one/"})
	equal(t, device.Options, options)
	equal(t, device.Local, true)
	hash := got(sys.AuditHash("go/one", "text"))(t)
	if !strings.HasPrefix(hash, "hmac-sha256:") {
		t.Fatal(hash)
	}
	refused(t, sys.EnableAuditWithOptions("go/one", &api.EnableAuditOptions{Type: "file",
		Options: options}), 400, "path already in use")
	headers := client.Logical()
	got(headers.Write("sys/config/auditing/request-headers/X-Go", map[string]any{"hmac": true}))(t)
	secret := got(headers.Read("sys/config/auditing/request-headers/x-go"))(t)
	equal(t, secret.Data["x-go"], any(map[string]any{"hmac": true}))
	got(headers.Delete("sys/config/auditing/request-headers/x-go"))(t)
	must(t, sys.DisableAudit("go/one"))
	must(t, sys.DisableAudit("go/one"))
	equal(t, len(got(sys.ListAudit())(t)), before)
}
